"""Weigh sessions. What a station says over MQTT (`Station...`) and what the edge then says on the bus.

The station names the session in the topic and leaves the rest to the edge, which knows the whole session: so the bus
has payloads of its own for the beginning and the end. A weight and a picture are the same thing on both sides.
"""

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.ids import Id, Sha256

WeightKg = Annotated[float, Meta(ge=0, le=100_000)]
ImageCount = Annotated[int, Meta(ge=0, le=100_000)]
SizeBytes = Annotated[int, Meta(ge=0, lt=2**53)]
Reason = Annotated[str, Meta(max_length=200)]
Revision = Annotated[int, Meta(ge=0, lt=2**31)]
MimeType = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}$(?!\n)", max_length=127)]


class StationSessionCreated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    batch_id: Id | None = None
    initial_weight_kg: WeightKg | None = None


class StationSessionFinalized(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`image_count` is how many pictures the edge has to wait for before the session is complete."""

    image_count: ImageCount
    final_weight_kg: WeightKg | None = None


class StationSessionCancelled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The animal left, or somebody pressed the button: there will be no weight and nobody waits for pictures."""

    reason: Reason | None = None


class WeightRecorded(Struct, frozen=True, kw_only=True):
    weight_kg: WeightKg


class ImageCaptured(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A picture was uploaded. With a session it comes on the session's topic, without one on the event topic."""

    media_id: UUID
    content_type: MimeType | None = None
    size_bytes: SizeBytes | None = None
    sha256: Sha256 | None = None


class SessionCreated(Struct, frozen=True, kw_only=True):
    status: Literal["created"]
    batch_id: Id | None = None
    initial_weight_kg: WeightKg | None = None


class SessionFinalized(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a session ended. What comes later may change it: the one with the highest `revision` is right.

    0 is the word of a station that it has itself replaced by another: kept, because everything accepted reaches the cloud.
    """

    status: Literal["finalized"]
    image_count: ImageCount
    final_weight_kg: WeightKg | None = None
    inference_result_id: UUID | None = None
    initial_weight_kg: WeightKg | None = None
    revision: Revision = 1


class SessionCancelled(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The other way to end. It shares its revisions with `SessionFinalized`."""

    status: Literal["cancelled"]
    reason: Reason | None = None
    revision: Revision = 1

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
MimeType = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,62}$(?!\n)", max_length=127)]


class StationSessionCreated(Struct, frozen=True, kw_only=True, omit_defaults=True):
    batch_id: Id | None = None
    initial_weight_kg: WeightKg | None = None


class StationSessionFinalized(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`image_count` is how many pictures the edge has to wait for before the session is complete."""

    image_count: ImageCount
    final_weight_kg: WeightKg | None = None


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


class SessionFinalized(Struct, frozen=True, kw_only=True):
    status: Literal["finalized"]
    image_count: ImageCount
    final_weight_kg: WeightKg | None = None
    inference_result_id: UUID | None = None

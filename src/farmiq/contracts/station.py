"""What was lost of a weigh station: `station.loss`, from the station itself or from its edge.

A station has no gapless sequence, so a loss names what it can: how many events of which type, how many pictures, whose sessions,
from when to when, and why.
"""

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.timestamps import Timestamp

STATION_LOSS: Final = "station.loss"
LOSS_NAMED_MAX: Final = 100
"""Of sessions and of events, each. Beyond that they are counted only."""

LossReason = Literal[
    "queue_full",
    "too_old",
    "no_space",
    "retries_exhausted",
    "rejected",
    "damaged",
    "forgotten_by_edge",
    "picture_refused",
    "picture_missing",
]
"""The last two are declared by the edge: a picture whose announcement it acknowledged, and which it does not have."""


class StationLoss(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`count` is everything together. `is_count_exact` is false when the queue itself was damaged and nobody can tell."""

    reason: LossReason
    dropped_at: Timestamp
    count: Annotated[int, Meta(ge=0)] = 0
    first_ts: Timestamp | None = None
    last_ts: Timestamp | None = None
    events: dict[str, int] = {}
    pictures: Annotated[int, Meta(ge=0)] = 0
    session_ids: Annotated[list[UUID], Meta(max_length=LOSS_NAMED_MAX)] = []
    event_ids: Annotated[list[UUID], Meta(max_length=LOSS_NAMED_MAX)] = []
    is_count_exact: bool = True
    media_ids: Annotated[list[UUID], Meta(max_length=LOSS_NAMED_MAX)] = []
    """The edge names the picture that it declares lost. A station knows none of these ids."""

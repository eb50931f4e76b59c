"""What only a weigh station says: `station.loss`, and its own part of `device.status`.

A station has no gapless sequence, so a loss names what it can: how many events of which type, how many pictures, whose sessions,
from when to when, and why.
"""

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.timestamps import Timestamp

STATION_LOSS: Final = "station.loss"
LOSS_NAMED_MAX: Final = 100
"""Of sessions and of events, each. Beyond that they are counted only."""

LossReason = Literal[
    "queue_full", "too_old", "no_space", "retries_exhausted", "rejected", "damaged", "forgotten_by_edge"
]


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


class FailedSession(Struct, frozen=True):
    session_id: UUID
    reason: Annotated[str, Meta(max_length=300)]


class StationStatus(DeviceStatus, frozen=True, kw_only=True, omit_defaults=True):
    """`unacked_count` are events and `spool_bytes` are pictures; what else a station has to say is added here."""

    pictures_waiting_count: int | None = None
    rejected_count: int | None = None
    failed_sessions_count: int | None = None
    failed_sessions: tuple[FailedSession, ...] = ()
    unweighed_count: int | None = None
    upload_trouble: Annotated[str, Meta(max_length=300)] | None = None

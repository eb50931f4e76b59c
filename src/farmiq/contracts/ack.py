"""What the edge tells a device on iot/{device_id}/ack, and only after its database has committed."""

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from farmiq.contracts.ids import Id
from farmiq.contracts.telemetry import Count, Seq
from farmiq.contracts.timestamps import Timestamp, keep_utc

AckResult = Literal["stored", "duplicate", "rejected"]
RANGES_MAX: Final = 1024


class EventAck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`rejected` is final, with the reason in `code`: the edge has kept the message and will not take it."""

    event_id: UUID
    result: AckResult
    code: Id | None = None


class DeviceAck(Struct, frozen=True, kw_only=True):
    """`acked_seq` is the highest sequence below which nothing is missing (0: nothing yet); `received` are ranges above it.

    `epoch` is the identity of the edge database. A device that sees a new one believes the lower mark and sends again
    what it still has. A weigh station has no stream: it reads `events` only.
    """

    epoch: UUID
    ts: Timestamp
    stream_id: UUID | None = None
    acked_seq: Count = 0
    received: Annotated[list[tuple[Seq, Seq]], Meta(max_length=RANGES_MAX)] = []
    events: Annotated[list[EventAck], Meta(max_length=10_000)] = []
    retry_after_seconds: Annotated[float, Meta(ge=0, le=3600)] | UnsetType = UNSET
    """Messages of this device were over its limit and were not taken: it keeps them, and waits so long before it sends more."""

    def __post_init__(self) -> None:
        if self.stream_id is None and (self.acked_seq or self.received):
            raise ValueError("acked_seq and received mean nothing without stream_id")
        if any(first > last for first, last in self.received):
            raise ValueError("a range in received ends before it begins")
        keep_utc(self, "ts")

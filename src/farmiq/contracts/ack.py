"""What the edge tells a device on iot/{device_id}/ack, and only after its database has committed."""

from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from farmiq.contracts.ids import Id
from farmiq.contracts.telemetry import Count, Seq, TimeQuality
from farmiq.contracts.timestamps import Timestamp, keep_utc

AckResult = Literal["stored", "duplicate", "rejected"]
RANGES_MAX: Final = 1024
BOOTS_MAX: Final = 64

NOT_REGISTERED: Final = "not_provisioned"
STREAM_OF_ANOTHER_DEVICE: Final = "stream_of_another_device"
NOT_STORABLE: Final = "not_storable"
STREAM_CONTRADICTED: Final = "stream_contradicted"
"""The edge holds other samples under these numbers of the stream: the device's disk was set back, or two devices share one
identity."""
EVENT_ID_REUSED: Final = "event_id_reused"
"""Final, but another id helps: another message of the tenant had this one."""

OF_DEVICE: Final = frozenset({NOT_REGISTERED, STREAM_OF_ANOTHER_DEVICE})
"""Refusals that concern all that the device sends."""
NOT_NOW: Final = OF_DEVICE | {NOT_STORABLE, STREAM_CONTRADICTED}
"""Refusals that a person, or the edge's database, can take back: the device keeps what they are about and sends it again. All
others are about the message as it is, and final. An edge of 0.1.0 says these as `rejected` too."""


class EventAck(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`rejected` is final, with the reason in `code`: the edge has kept the message and will not take it. Unless the code is one
    of `NOT_NOW`, and never for a record of a loss."""

    event_id: UUID
    result: AckResult
    code: Id | None = None

    @property
    def is_put_off(self) -> bool:
        return self.result == "rejected" and self.code in NOT_NOW


class PutOff(Struct, frozen=True, kw_only=True):
    """A message that is not taken as things are: the device is not registered, for instance. It stays with the device. A field of
    its own, because a device of 0.1.0 discards an acknowledgement with a result that it does not know; it hears nothing of
    this one, and repeats."""

    event_id: UUID
    code: Id


class BootHeld(Struct, frozen=True, array_like=True):
    """What the edge holds of one boot of a device within a stream: its first and its last number, and the time of the last one as
    the device sent it, in microseconds. The device compares it with what it holds itself."""

    boot_id: UUID
    first_seq: Seq
    last_seq: Seq
    last_t: int


class StreamHeld(Struct, frozen=True, kw_only=True):
    """What the edge holds of a stream whose samples the device's own contradict."""

    stream_id: UUID
    acked_seq: Count
    received: Annotated[list[tuple[Seq, Seq]], Meta(max_length=RANGES_MAX)] = []
    boots: Annotated[list[BootHeld], Meta(max_length=BOOTS_MAX)] = []


class TimeResponse(Struct, frozen=True, kw_only=True):
    """To a status with `time_request`: when it was received, on the edge's clock, and `quality` of that clock as a batch has it.
    The acknowledgement's `ts` is the time of the response, so a device knows how much of its waiting was the edge's."""

    event_id: UUID
    received_at: Timestamp
    quality: TimeQuality

    def __post_init__(self) -> None:
        keep_utc(self, "received_at")


class DeviceAck(Struct, frozen=True, kw_only=True):
    """`acked_seq` is the highest sequence below which nothing is missing (0: nothing yet); `received` are ranges above it.

    `epoch` is the identity of the edge database. A device that sees a new one believes the lower mark and sends again
    what it still has. A weigh station has no stream: it reads `events` only.
    """

    epoch: UUID
    ts: Timestamp
    commits: Count | UnsetType = UNSET
    """Grows with the transactions of the edge's database. A lower one for a minute: the database was set back under its epoch."""
    stream_id: UUID | None = None
    acked_seq: Count = 0
    received: Annotated[list[tuple[Seq, Seq]], Meta(max_length=RANGES_MAX)] = []
    events: Annotated[list[EventAck], Meta(max_length=10_000)] = []
    put_off: Annotated[list[PutOff], Meta(max_length=10_000)] | UnsetType = UNSET
    boots: Annotated[list[BootHeld], Meta(max_length=BOOTS_MAX)] | UnsetType = UNSET
    """Of the stream, the newest: a device whose own samples say otherwise was set back, and begins a new stream."""
    contradicted: Annotated[list[StreamHeld], Meta(max_length=BOOTS_MAX)] | UnsetType = UNSET
    """A batch was not taken, because other samples are stored under its numbers: the device begins a new stream. A field of its
    own: a device of 0.1.0 would take the marks in it for its own samples'. It gets silence, and repeats."""
    retry_after_seconds: Annotated[float, Meta(ge=0, le=3600)] | UnsetType = UNSET
    """Messages of this device were not taken, because they were over its limit or were put off: it keeps them, and waits so long
    before it sends more."""
    time: TimeResponse | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.stream_id is None and (self.acked_seq or self.received):
            raise ValueError("acked_seq and received mean nothing without stream_id")
        if any(first > last for first, last in self.received):
            raise ValueError("a range in received ends before it begins")
        keep_utc(self, "ts")

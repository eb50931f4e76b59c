"""What the services answer, as far as the audit needs it. Unknown fields are passed over."""

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from farmiq.timeseries.accounts import DeviceAccount


class AccountPage(Struct, frozen=True):
    devices: list[DeviceAccount]
    retired_samples: int
    next: str | None = None


class Tenants(Struct, frozen=True):
    tenants: list[str]


class Erasure(Struct, frozen=True):
    begun_at: datetime
    erased_by: str


class Erasures(Struct, frozen=True):
    erasures: list[Erasure]


class SyncPlan(Struct, frozen=True):
    mode: str = "raw"
    window: str = "1m"

    @property
    def windows(self) -> list[str]:
        """Of hours and days, those that the cloud has as soon as the edge has told of them."""
        return ["1d"] if self.mode == "aggregated" and self.window == "1d" else ["1h", "1d"]


class WaitingEvent(Struct, frozen=True):
    """`record_id`: of the result or picture that it is about. A service of 0.1.0 does not name it."""

    event_type: str
    is_dead: bool
    device_id: str | None = None
    session_id: UUID | None = None
    occurred_at: datetime | None = None
    stream_id: str | None = None
    first_seq: str | None = None
    samples: int | None = None
    id: UUID | None = None
    record_id: UUID | None = None


class Waiting(Struct, frozen=True):
    """A page of it: `next` is the `after` of the next one."""

    events: list[WaitingEvent]
    is_complete: bool
    next: UUID | None = None


class HeldEvents(Struct, frozen=True):
    """Of one device or weigh session."""

    code: str
    events: int
    device_id: str | None = None
    session_id: UUID | None = None
    message: str | None = None
    since: datetime | None = None


class Held(Struct, frozen=True):
    edge_cluster_id: str
    is_tenant_refused: bool
    held: list[HeldEvents]


class LimitedDevice(Struct, frozen=True):
    device_id: str
    messages: int
    reason: str


class Limits(Struct, frozen=True):
    limited: list[LimitedDevice]


class DeviceOwner(Struct, frozen=True):
    device_id: str
    edge_cluster_id: str


class DeviceOwners(Struct, frozen=True):
    owners: list[DeviceOwner]


class BrokerRefusal(Struct, frozen=True):
    device_id: str
    kind: str
    count: int
    last_at: datetime


class Refusals(Struct, frozen=True):
    refusals: list[BrokerRefusal]


class Stats(Struct, frozen=True):
    duplicates: int = 0


class BusQueue(Struct, frozen=True):
    """`oldest_seconds`: no message in it was accepted longer ago. None: not known."""

    service: str
    waiting: int
    retrying: int
    dead: int
    oldest_seconds: float | None = None


class BusQueues(Struct, frozen=True):
    queues: list[BusQueue]


class DeadGroup(Struct, frozen=True):
    count: int


class DeadQueue(Struct, frozen=True):
    service: str
    groups: list[DeadGroup] = []


class DeadQueues(Struct, frozen=True):
    queues: list[DeadQueue]

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


class WaitingEvent(Struct, frozen=True):
    event_type: str
    is_dead: bool
    device_id: str | None = None
    session_id: UUID | None = None
    occurred_at: datetime | None = None
    stream_id: str | None = None
    first_seq: str | None = None
    samples: int | None = None


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
    service: str
    waiting: int
    retrying: int
    dead: int


class BusQueues(Struct, frozen=True):
    queues: list[BusQueue]


class DeadGroup(Struct, frozen=True):
    count: int


class DeadQueue(Struct, frozen=True):
    service: str
    groups: list[DeadGroup] = []


class DeadQueues(Struct, frozen=True):
    queues: list[DeadQueue]

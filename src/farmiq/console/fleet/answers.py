"""What the services tell of devices, as far as the pages show it."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import Struct

DeviceState = Literal["online", "quiet", "idle", "never_heard", "revoked"]


class Marks(Struct, frozen=True):
    stream_id: UUID
    edge_contiguous_seq: int
    edge_highest_seq: int
    edge_missing: int
    lost: int
    captured_seq: int | None = None


class Sensor(Struct, frozen=True):
    metric_type: str
    sensor: str
    fresh: bool
    faulty: bool
    last_sample_ts: datetime | None = None


class FailedSession(Struct, frozen=True):
    session_id: UUID
    reason: str


class Status(Struct, frozen=True):
    software_version: str | None = None
    stream_id: UUID | None = None
    uptime_seconds: float | None = None
    spool_bytes: int | None = None
    spool_bytes_max: int | None = None
    oldest_sample_age_seconds: float | None = None
    last_captured_seq: int | None = None
    last_acked_seq: int | None = None
    unacked_count: int | None = None
    dropped_count: int | None = None
    not_captured_count: int | None = None
    replay_state: str | None = None
    drain_seconds_estimated: float | None = None
    runway_seconds: float | None = None
    faulty_sensors: list[str] = []
    pictures_waiting_count: int | None = None
    failed_sessions_count: int | None = None
    failed_sessions: list[FailedSession] = []
    upload_trouble: str | None = None


class Device(Struct, frozen=True):
    device_id: str
    tenant_id: str
    farm_id: str
    barn_id: str
    state: DeviceState
    fresh: bool
    kind: str | None = None
    created_at: datetime | None = None
    credential_at: datetime | None = None
    revoked_at: datetime | None = None
    last_rx_at: datetime | None = None
    last_sample_ts: datetime | None = None
    time_quality: int | None = None
    marks: Marks | None = None
    sensors: list[Sensor] = []
    status: Status | None = None
    status_at: datetime | None = None


class Devices(Struct, frozen=True):
    devices: list[Device] = []
    next: str | None = None


class DeviceCounts(Struct, frozen=True):
    registered: int
    online: int
    quiet: int
    never_heard: int
    revoked: int
    idle: int = 0


class Stream(Struct, frozen=True):
    stream_id: UUID
    device_id: str
    contiguous_seq: int
    highest_seq: int
    stored: int
    lost: int
    missing: int
    first_seen_at: datetime
    last_seen_at: datetime


class Streams(Struct, frozen=True):
    streams: list[Stream] = []


class Gap(Struct, frozen=True):
    first_seq: int
    last_seq: int
    count: int
    after_ts: datetime | None = None
    before_ts: datetime | None = None


class Gaps(Struct, frozen=True):
    gaps: list[Gap] = []
    next: str | None = None


class Hour(Struct, frozen=True):
    device_id: str
    hour_at: datetime
    stored: int = 0
    lost: int = 0
    missing: int = 0


class Undated(Struct, frozen=True):
    device_id: str
    missing: int = 0


class Coverage(Struct, frozen=True):
    hours: list[Hour] = []
    undated: list[Undated] = []


class Totals(Struct, frozen=True):
    device_id: str
    stored: int
    lost: int
    missing: int


class AllTotals(Struct, frozen=True):
    devices: list[Totals] = []
    next: str | None = None


class Loss(Struct, frozen=True):
    event_id: UUID
    device_id: str
    stream_id: UUID
    first_seq: int
    last_seq: int
    count: int
    reason: str
    dropped_at: datetime
    recorded_at: datetime
    first_ts: datetime | None = None
    last_ts: datetime | None = None


class Losses(Struct, frozen=True):
    losses: list[Loss] = []
    next: str | None = None


class LossSum(Struct, frozen=True):
    reason: str
    month_at: datetime
    records: int
    samples: int


class StationSum(Struct, frozen=True):
    month_at: datetime
    records: int
    lost: int
    pictures: int


class StationSummary(Struct, frozen=True):
    """`lost` are events and pictures together."""

    records: int = 0
    lost: int = 0
    pictures: int = 0
    last_at: datetime | None = None
    sums: list[StationSum] = []


class LossSummary(Struct, frozen=True):
    records: int
    samples_lost: int
    last_at: datetime | None = None
    since: datetime | None = None
    sums: list[LossSum] = []
    stations: StationSummary = StationSummary()


class StationLoss(Struct, frozen=True):
    event_id: UUID
    device_id: str
    reason: str
    count: int
    pictures: int
    is_count_exact: bool
    dropped_at: datetime
    recorded_at: datetime
    first_ts: datetime | None = None
    last_ts: datetime | None = None


class StationLosses(Struct, frozen=True):
    losses: list[StationLoss] = []
    next: str | None = None


class Reading(Struct, frozen=True):
    occurred_at: datetime
    metric_type: str
    metric_value: float
    ingested_at: datetime
    unit: str | None = None
    sensor: str | None = None
    seq: int | None = None
    time_quality: int | None = None


class LimitedDevice(Struct, frozen=True):
    """Messages that were not taken in the last hour, and why."""

    device_id: str
    messages: int
    reason: str
    last_at: datetime | None = None
    shut_until: datetime | None = None


class Limits(Struct, frozen=True):
    disk: str = "free"
    limited: list[LimitedDevice] = []


class Readings(Struct, frozen=True):
    readings: list[Reading] = []


class Event(Struct, frozen=True):
    event_id: UUID
    event_type: str
    occurred_at: datetime
    received_at: datetime
    device_id: str | None = None


class Events(Struct, frozen=True):
    events: list[Event] = []


class DeadLetter(Struct, frozen=True):
    id: UUID
    event_type: str
    device_id: str | None = None
    occurred_at: datetime | None = None


class DeadLetters(Struct, frozen=True):
    entries: list[DeadLetter] = []


class Way(Struct, frozen=True):
    title: str
    text: str


class NewSecrets(Struct, frozen=True):
    device_id: str
    kind: str
    mqtt_username: str
    mqtt_password: str
    http_token: str
    mqtt_url: str
    ways: list[Way]
    for_the_broker: str | None = None

    def __repr__(self) -> str:
        return f"NewSecrets(device_id={self.device_id!r}, ***)"


class RevokedDevice(Struct, frozen=True):
    device_id: str
    for_the_broker: str | None = None


class BrokerRefusal(Struct, frozen=True):
    """What the broker refused to a device, as often as it was tried."""

    kind: str
    count: int
    topic: str
    first_at: datetime
    last_at: datetime


class BrokerRefusals(Struct, frozen=True):
    refusals: tuple[BrokerRefusal, ...] = ()

"""What the services answer about measurements, as far as a chart needs it."""

from datetime import datetime

from msgspec import Struct


class Series(Struct, frozen=True):
    device_id: str
    metric_type: str
    sensor: str
    unit: str
    last_bucket_at: datetime


class SeriesPage(Struct, frozen=True):
    metrics: list[Series]
    next: str | None = None


class Reading(Struct, frozen=True):
    occurred_at: datetime
    metric_value: float
    barn_id: str = ""
    unit: str | None = None
    sensor: str | None = None


class ReadingPage(Struct, frozen=True):
    readings: list[Reading]
    next: str | None = None


class Bucket(Struct, frozen=True):
    bucket_start_at: datetime
    bucket_end_at: datetime
    sensor: str | None
    unit: str
    count: int
    avg_value: float
    min_value: float
    max_value: float


class BucketPage(Struct, frozen=True):
    window: str
    buckets: list[Bucket]
    next: str | None = None


class LossSpan(Struct, frozen=True):
    first_at: datetime
    last_at: datetime
    samples: int
    reason: str


class GapSpan(Struct, frozen=True):
    first_at: datetime
    last_at: datetime
    samples: int


class LateSpan(Struct, frozen=True):
    first_at: datetime
    last_at: datetime
    delay_seconds: float


class Spans(Struct, frozen=True):
    lost: list[LossSpan] = []
    missing: list[GapSpan] = []
    late: list[LateSpan] = []
    undated: int = 0


class DevicePlace(Struct, frozen=True):
    device_id: str
    farm_id: str
    barn_id: str


class DevicePage(Struct, frozen=True):
    devices: list[DevicePlace]

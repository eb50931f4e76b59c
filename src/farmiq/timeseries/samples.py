"""The rows of `telemetry_raw` that samples become."""

from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.kit.ids import reading_id
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.stream import Origin, StreamKey

COLUMNS = (
    "id", "tenant_id", "farm_id", "barn_id", "device_id", "occurred_at", "metric_type", "metric_value", "unit",
    "ingested_at", "stream_id", "seq", "sensor", "time_quality",
    "device_occurred_at",
)  # fmt: skip

Row = tuple[object, ...]


class StreamBatch(msgspec.Struct, frozen=True):
    """Some samples of one stream."""

    origin: Origin
    batch: TelemetryBatch

    @property
    def key(self) -> StreamKey:
        return self.origin.tenant_id, self.batch.stream_id

    @property
    def span(self) -> Span:
        return self.batch.seq0, self.batch.seq0 + len(self.batch.t)


class SingleReading(msgspec.Struct, frozen=True):
    """One value outside any stream; its row id follows from its event id."""

    origin: Origin
    event_id: UUID
    occurred_at: datetime
    metric: str
    value: float
    unit: str

    @property
    def key(self) -> "ReadingKey":
        return self.origin.tenant_id, reading_id(self.event_id), self.occurred_at


ReadingKey = tuple[str, UUID, datetime]
"""The key of `telemetry_raw`."""


def row_of(reading: SingleReading, ingested_at: datetime) -> Row:
    origin = reading.origin
    return (
        reading_id(reading.event_id), origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id,
        reading.occurred_at, reading.metric, reading.value, reading.unit or None,
        ingested_at, None, None, None, None, None,
    )  # fmt: skip

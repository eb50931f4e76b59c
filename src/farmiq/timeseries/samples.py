"""The rows of `telemetry_raw` that samples become."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import sample_id
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.stream import Origin

COLUMNS = (
    "id", "tenant_id", "farm_id", "barn_id", "device_id", "occurred_at", "metric_type", "metric_value", "unit",
    "ingested_at", "stream_id", "seq", "sensor", "time_quality",
)  # fmt: skip

Row = tuple[object, ...]


class StreamBatch(msgspec.Struct, frozen=True):
    """Some samples of one stream."""

    origin: Origin
    batch: TelemetryBatch

    @property
    def span(self) -> Span:
        return self.batch.seq0, self.batch.seq0 + len(self.batch.t)


class SingleReading(msgspec.Struct, frozen=True):
    """One value outside any stream; its event id is its row id."""

    origin: Origin
    event_id: UUID
    occurred_at: datetime
    metric: str
    value: float
    unit: str


def rows_of(item: StreamBatch, span: Span, ingested_at: datetime) -> Iterator[Row]:
    """The rows of the sequences in `span`."""
    batch, origin = item.batch, item.origin
    offset = batch.seq0
    channels = [(channel.metric, channel.unit or None, channel.sensor) for channel in batch.channels]
    for seq in range(*span):
        at = seq - offset
        metric, unit, sensor = channels[batch.c[at]]
        yield (
            sample_id(batch.stream_id, seq), origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id,
            from_us(batch.t[at]), metric, batch.v[at], unit,
            ingested_at, batch.stream_id, seq, sensor, batch.time_quality,
        )  # fmt: skip


def row_of(reading: SingleReading, ingested_at: datetime) -> Row:
    origin = reading.origin
    return (
        reading.event_id, origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id,
        reading.occurred_at, reading.metric, reading.value, reading.unit or None,
        ingested_at, None, None, None, None,
    )  # fmt: skip


def values_of(item: StreamBatch, span: Span) -> Iterator[tuple[str, str, str, int, float]]:
    """What the aggregates need of the sequences in `span`: metric, sensor, unit, time in microseconds, value."""
    batch = item.batch
    channels = [(channel.metric, channel.sensor or "", channel.unit or "") for channel in batch.channels]
    for at in range(span[0] - batch.seq0, span[1] - batch.seq0):
        metric, sensor, unit = channels[batch.c[at]]
        yield metric, sensor, unit, batch.t[at], batch.v[at]

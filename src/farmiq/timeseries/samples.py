"""The rows of `telemetry_raw` that samples become."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.contracts.telemetry import DRIFT_PPB_MAX, TelemetryBatch, TimeSegment
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


def correction_between(first_seq: int, device_us: Sequence[int], occurred_us: Sequence[int]) -> list[TimeSegment]:
    """The correction of stored samples, for whoever makes a batch of them once more: right to the microsecond."""
    began_us, passed_us, shift_us = device_us[0], device_us[-1] - device_us[0], occurred_us[0] - device_us[0]
    drift_ppb = (occurred_us[-1] - device_us[-1] - shift_us) * 1_000_000_000 // passed_us if passed_us else 0
    segment = TimeSegment(first_seq, began_us, shift_us, drift_ppb)
    is_one_line = abs(drift_ppb) <= DRIFT_PPB_MAX and all(
        abs(segment.corrected(at_us) - true_us) <= 1 for at_us, true_us in zip(device_us, occurred_us, strict=True)
    )
    if is_one_line or len(device_us) == 1:
        return [segment]
    half = len(device_us) // 2
    return [
        *correction_between(first_seq, device_us[:half], occurred_us[:half]),
        *correction_between(first_seq + half, device_us[half:], occurred_us[half:]),
    ]


def row_of(reading: SingleReading, ingested_at: datetime) -> Row:
    origin = reading.origin
    return (
        reading_id(reading.event_id), origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id,
        reading.occurred_at, reading.metric, reading.value, reading.unit or None,
        ingested_at, None, None, None, None, None,
    )  # fmt: skip

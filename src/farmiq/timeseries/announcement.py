"""Of which aggregates others are to be told, when, and in what words: an edge tells the cloud, the cloud tells the bus."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from farmiq.contracts.telemetry import TelemetryAggregated
from farmiq.contracts.timestamps import to_us
from farmiq.kit.due_times import first_due
from farmiq.timeseries.rollup import WINDOW_MICROSECONDS, Bucket

TELLING_AHEAD: Final = "interval '49 hours'"
"""None waits for longer than a day, and a day in which it settles. What is due later was written by a clock that was ahead."""
# Of both tiers' `telemetry_agg_unsent`: at $1, up to $2.
TELLING_DUE: Final = first_due(
    "telemetry_agg_unsent", "true", "due_at", limit="$2", now="$1::timestamptz", ahead=TELLING_AHEAD
)


def with_due_times(
    touched: Iterable[Bucket], received_at: datetime, settle_seconds: float
) -> list[tuple[Bucket, datetime]]:
    """In the order of the keys, with the time at which others are to be told: its window has closed, and settled.

    A bucket is told of once in each settling time at most, however often samples come for it, and never put off. One that a
    wild clock opened in the future is told of after the length of its window: it may never close.
    """
    settled_at = received_at + timedelta(seconds=settle_seconds)
    received_us = to_us(received_at)
    return [(bucket, settled_at + _until_closed(bucket, received_us)) for bucket in sorted(touched)]


def _until_closed(bucket: Bucket, now_us: int) -> timedelta:
    width_us = WINDOW_MICROSECONDS[bucket.window]
    return timedelta(microseconds=min(max(bucket.start_us + width_us - now_us, 0), width_us))


def aggregate_of(row: Mapping[str, Any], revision: int | None = None) -> TelemetryAggregated:
    """A row of `telemetry_agg` as others are told of it."""
    return TelemetryAggregated(
        metric_type=row["metric_type"],
        aggregation_window=row["window"],
        avg_value=row["sum_value"] / row["count"],
        min_value=row["min_value"],
        max_value=row["max_value"],
        unit=row["unit"],
        count=row["count"],
        sum_value=row["sum_value"],
        bucket_start_at=row["bucket_start_at"],
        bucket_end_at=row["bucket_end_at"],
        sensor=row["sensor"] or None,
        revision=revision,
    )

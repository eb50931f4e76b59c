"""What the cloud is told of measurements: every sample, the aggregates of closed windows, or both (`TELEMETRY_SYNC_MODE`)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from farmiq.contracts.timestamps import to_us
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.rollup import WINDOW_MICROSECONDS, Bucket
from farmiq.timeseries.samples import SingleReading, StreamBatch

SyncMode = Literal["raw", "aggregated", "both"]
SyncWindow = Literal["1m", "1h", "1d"]


class SyncPlan(msgspec.Struct, frozen=True):
    """`settle_seconds`: how long after its window closed, or after late samples came, an aggregate is sent."""

    mode: SyncMode = "raw"
    window: SyncWindow = "1m"
    settle_seconds: int = 30

    @property
    def has_raw(self) -> bool:
        return self.mode != "aggregated"

    @property
    def has_aggregates(self) -> bool:
        return self.mode != "raw"


def touched_by_batches(stored: Iterable[tuple[StreamBatch, Sequence[Span]]], window: SyncWindow) -> set[Bucket]:
    """The buckets that the stored runs of these batches were added to."""
    return {bucket for item, spans in stored for span in spans for bucket in _buckets_of(item, span, window)}


def touched_by_readings(readings: Iterable[SingleReading], window: SyncWindow) -> set[Bucket]:
    return {
        Bucket(reading.origin, reading.metric, "", reading.unit, window, _start(to_us(reading.occurred_at), window))
        for reading in readings
    }


def with_due_times(touched: Iterable[Bucket], received_at: datetime, plan: SyncPlan) -> list[tuple[Bucket, datetime]]:
    """In the order of the keys, with the time at which the cloud is to be told.

    A bucket is told of once in each settling time at most, however often samples come for it, and never put off. One that a
    wild clock opened in the future is told of after the length of its window: it may never close.
    """
    settled_at = received_at + timedelta(seconds=plan.settle_seconds)
    width_us = WINDOW_MICROSECONDS[plan.window]
    received_us = to_us(received_at)
    return [
        (bucket, settled_at + timedelta(microseconds=min(max(bucket.start_us + width_us - received_us, 0), width_us)))
        for bucket in sorted(touched)
    ]


def is_recent(bucket_start_at: datetime, window: str, now: datetime) -> bool:
    """Closed just now, and not opened again by a replay: such an aggregate goes ahead of a backlog."""
    return now - bucket_start_at < 3 * timedelta(microseconds=WINDOW_MICROSECONDS[window])


def _buckets_of(item: StreamBatch, span: Span, window: SyncWindow) -> Iterator[Bucket]:
    batch, width_us = item.batch, WINDOW_MICROSECONDS[window]
    run = slice(span[0] - batch.seq0, span[1] - batch.seq0)
    starts = {(number, at_us - at_us % width_us) for number, at_us in zip(batch.c[run], batch.t[run], strict=True)}
    for number, start_us in starts:
        channel = batch.channels[number]
        yield Bucket(item.origin, channel.metric, channel.sensor or "", channel.unit, window, start_us)


def _start(at_us: int, window: SyncWindow) -> int:
    return at_us - at_us % WINDOW_MICROSECONDS[window]

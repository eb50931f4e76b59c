"""Aggregates that stay exact however late, repeated or out of order the samples come.

Count, sum, minimum and maximum can be merged in any order; an average of averages cannot, so none is ever kept.
"""

from collections.abc import Sequence
from math import copysign, isfinite, isnan
from typing import NamedTuple

from farmiq.contracts.timestamps import to_us
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin

# A sum that leaves the numbers stands still here, below the end, where an average can still be made of it and sent as JSON.
SUM_MAX = 1.78e308
SUM_MIN = 1e-290

WINDOW_MICROSECONDS = {"1m": 60_000_000, "1h": 3_600_000_000, "1d": 86_400_000_000}


class Bucket(NamedTuple):
    """The key of one aggregate. Its order is the order in which aggregates are written."""

    origin: Origin
    metric: str
    sensor: str
    unit: str
    window: str
    start_us: int


class Tally(NamedTuple):
    samples: int
    total: float
    low: float
    high: float

    def merged(self, other: "Tally") -> "Tally":
        return Tally(
            self.samples + other.samples, self.total + other.total, min(self.low, other.low), max(self.high, other.high)
        )


def tally_batch(item: StreamBatch, span: Span, into: dict[Bucket, Tally]) -> None:
    """Add the samples of the sequences in `span` to their minutes."""
    batch, minute = item.batch, WINDOW_MICROSECONDS["1m"]
    first, end = span[0] - batch.seq0, span[1] - batch.seq0
    # A key of two small numbers while there are many, the bucket's full name once for each minute.
    values: dict[tuple[int, int], list[float]] = {}
    for channel, at_us, value in zip(batch.c[first:end], batch.occurred_us[first:end], batch.v[first:end], strict=True):
        key = (channel, at_us - at_us % minute)
        if key in values:
            values[key].append(value)
        else:
            values[key] = [value]
    for (number, start_us), found in values.items():
        channel_name = batch.channels[number]
        bucket = Bucket(item.origin, channel_name.metric, channel_name.sensor or "", channel_name.unit, "1m", start_us)
        _add(bucket, Tally(len(found), sum(found), min(found), max(found)), into)


def tally_reading(reading: SingleReading, into: dict[Bucket, Tally]) -> None:
    at_us = to_us(reading.occurred_at)
    start_us = at_us - at_us % WINDOW_MICROSECONDS["1m"]
    bucket = Bucket(reading.origin, reading.metric, "", reading.unit, "1m", start_us)
    _add(bucket, Tally(1, reading.value, reading.value, reading.value), into)


def with_wider_windows(minutes: dict[Bucket, Tally]) -> list[tuple[Bucket, Tally]]:
    """The minutes and the hours and days made of them, in the order of their keys."""
    merged = dict(minutes)
    for bucket, tally in minutes.items():
        for window in ("1h", "1d"):
            width = WINDOW_MICROSECONDS[window]
            wider = bucket._replace(window=window, start_us=bucket.start_us - bucket.start_us % width)
            _add(wider, tally, merged)
    return sorted(merged.items())


def _add(bucket: Bucket, tally: Tally, into: dict[Bucket, Tally]) -> None:
    known = into.get(bucket)
    into[bucket] = tally if known is None else known.merged(tally)


def at_one_place(aggregates: Sequence[tuple[Bucket, Tally]]) -> Sequence[tuple[Bucket, Tally]]:
    """A device that moved has one bucket all the same: its place is kept beside the bucket and is no part of its key."""
    origins = {bucket.origin for bucket, _ in aggregates}
    if len({(origin.tenant_id, origin.device_id) for origin in origins}) == len(origins):
        return aggregates
    place = {(origin.tenant_id, origin.device_id): origin for origin in sorted(origins)}
    merged: dict[Bucket, Tally] = {}
    for bucket, tally in aggregates:
        _add(bucket._replace(origin=place[bucket.origin.tenant_id, bucket.origin.device_id]), tally, merged)
    return sorted(merged.items())


def bounded(total: float) -> float:
    """A sum that PostgreSQL can add to and divide by a count. It refuses results that are too large for a number, or too small to
    be told from zero, and with them every sample of the batch: the one stands still, the other is zero."""
    if isfinite(total):
        return 0.0 if abs(total) < SUM_MIN else min(max(total, -SUM_MAX), SUM_MAX)
    return 0.0 if isnan(total) else copysign(SUM_MAX, total)

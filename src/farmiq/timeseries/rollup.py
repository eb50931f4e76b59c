"""Aggregates that stay exact however late, repeated or out of order the samples come.

Count, sum, minimum and maximum can be merged in any order; an average of averages cannot, so none is ever kept.
"""

from collections.abc import Iterable
from typing import NamedTuple

from farmiq.timeseries.stream import Origin

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


def tally_minutes(
    origin: Origin, samples: Iterable[tuple[str, str, str, int, float]], into: dict[Bucket, Tally]
) -> None:
    """Add samples (metric, sensor, unit, time in microseconds, value) to their minutes."""
    minute = WINDOW_MICROSECONDS["1m"]
    for metric, sensor, unit, at_us, value in samples:
        bucket = Bucket(origin, metric, sensor, unit, "1m", at_us - at_us % minute)
        known = into.get(bucket)
        if known is None:
            into[bucket] = Tally(1, value, value, value)
        else:
            into[bucket] = Tally(known.samples + 1, known.total + value, min(known.low, value), max(known.high, value))


def with_wider_windows(minutes: dict[Bucket, Tally]) -> list[tuple[Bucket, Tally]]:
    """The minutes and the hours and days made of them, in the order of their keys."""
    merged = dict(minutes)
    for bucket, tally in minutes.items():
        for window in ("1h", "1d"):
            width = WINDOW_MICROSECONDS[window]
            wider = bucket._replace(window=window, start_us=bucket.start_us - bucket.start_us % width)
            known = merged.get(wider)
            merged[wider] = tally if known is None else known.merged(tally)
    return sorted(merged.items())

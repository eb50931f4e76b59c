"""How long samples take from the sensor to the cloud's database, from the histogram that the cloud keeps. Pure."""

from collections.abc import Mapping, Sequence
from math import inf

from msgspec import Struct

Buckets = Mapping[float, float]
"""How many took at most so many seconds, by that upper end; `inf` holds all."""


class Delay(Struct, frozen=True):
    """Seconds within which so many of a hundred batches were stored. `is_beyond`: the slowest took longer than can be told.
    `window_seconds` is None when it is of all batches since the service started."""

    p50: float
    p95: float
    p99: float
    batches: int
    is_beyond: bool
    window_seconds: float | None


def delay(now: Buckets, before: Buckets | None, window_seconds: float) -> Delay | None:
    """Of the batches between two looks; of all since the start when there is no earlier look, or when counting began anew."""
    is_new = before is None or any(now.get(end, 0.0) < count for end, count in before.items())
    earlier = {} if is_new or before is None else before
    counts = sorted((end, count - earlier.get(end, 0.0)) for end, count in now.items())
    if not counts or counts[-1][1] <= 0:
        return None
    finite = [end for end, _ in counts if end < inf]
    return Delay(
        p50=quantile(counts, 0.50),
        p95=quantile(counts, 0.95),
        p99=quantile(counts, 0.99),
        batches=round(counts[-1][1]),
        is_beyond=bool(finite) and quantile(counts, 0.99) >= finite[-1],
        window_seconds=None if is_new else window_seconds,
    )


def quantile(counts: Sequence[tuple[float, float]], share: float) -> float:
    """As Prometheus does it: evenly inside the bucket in which that batch lies."""
    wanted = share * counts[-1][1]
    lower_end, lower_count = 0.0, 0.0
    for end, count in counts:
        if count >= wanted and count > lower_count:
            if end == inf:
                return lower_end
            return lower_end + (end - lower_end) * (wanted - lower_count) / (count - lower_count)
        lower_end, lower_count = end, count
    return lower_end

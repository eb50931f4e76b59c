"""Aggregates of hours and days at both tiers: as many samples, the same sum, minimum and maximum.

Digests of days first; of days that differ, each bucket. Sums of the same samples differ in their last digits, by the order in
which batches were added up.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct

from farmiq.audit.records import CLOUD, TELEMETRY, Asked, Record, RecordKind, read_kind
from farmiq.console.neighbours import Neighbours

KIND: Final = RecordKind("buckets", "hour and day of the aggregates", TELEMETRY, CLOUD, is_kept_for_good=True)
WIDTHS: Final = {"1h": timedelta(hours=1), "1d": timedelta(days=1)}
SUM_TOLERANCE: Final = 1e-9
"""As a part of the sum of all amounts."""
NAMED_MAX: Final = 3


class Bucket(Struct, frozen=True):
    """`is_unsent`: the tier has still to tell of it, or of a part of it."""

    metric: str
    sensor: str
    unit: str
    window: str
    at: datetime
    count: int
    total: float
    low: float
    high: float
    is_unsent: bool = False

    def is_like(self, other: "Bucket") -> bool:
        """With as many samples: whether they can be the same."""
        amounts = self.count * max(abs(self.low), abs(self.high))
        is_same_sum = abs(self.total - other.total) <= SUM_TOLERANCE * amounts
        return is_same_sum and (self.low, self.high) == (other.low, other.high)

    @property
    def words(self) -> str:
        return f"{self.count} samples, sum {self.total:g}, {self.low:g} to {self.high:g}"


class Pair(NamedTuple):
    """One bucket that is not the same at both tiers, or only at one."""

    edge: Bucket | None
    cloud: Bucket | None

    @property
    def bucket(self) -> Bucket:
        bucket = self.edge or self.cloud
        assert bucket is not None  # noqa: S101 - it is at one tier at least
        return bucket

    @property
    def behind(self) -> int:
        """How many samples more the edge counts; below zero, the cloud."""
        return (self.edge.count if self.edge else 0) - (self.cloud.count if self.cloud else 0)

    @property
    def words(self) -> str:
        one = self.bucket
        name = " ".join(part for part in (one.metric, one.sensor, one.unit) if part)
        edge, cloud = (bucket.words if bucket else "nothing" for bucket in (self.edge, self.cloud))
        return f"{name}, {one.window} from {one.at:%Y-%m-%d %H:%M} UTC: {edge} at the edge, {cloud} in the cloud"


class Shortfall(NamedTuple):
    """What the buckets of one window show: those of which the cloud has fewer samples or more, and those with as many samples
    that are others."""

    behind: list[Pair]
    ahead: list[Pair]
    differing: list[Pair]

    @property
    def samples_behind(self) -> int:
        return sum(pair.behind for pair in self.behind)

    @property
    def samples_ahead(self) -> int:
        return -sum(pair.behind for pair in self.ahead)


def shortfall_of(pairs: Iterable[Pair], window: str, is_coming: Callable[[Pair], bool]) -> Shortfall:
    """`is_coming`: whether an aggregate is on its way that makes a bucket right."""
    found = Shortfall([], [], [])
    for pair in pairs:
        if pair.bucket.window != window or is_coming(pair):
            continue
        if pair.behind:
            (found.behind if pair.behind > 0 else found.ahead).append(pair)
        elif pair.edge is not None and pair.cloud is not None and not pair.edge.is_like(pair.cloud):
            found.differing.append(pair)
    return found


def is_announced(pair: Pair, announced: Collection[datetime]) -> bool:
    """`announced`: when aggregates begin, of the same device, that are in the outbox or have just left it."""
    begin_at, width = pair.bucket.at, WIDTHS[pair.bucket.window]
    is_unsent = pair.edge is not None and pair.edge.is_unsent
    return is_unsent or any(begin_at <= at and at - begin_at < width for at in announced)


def in_words(pairs: Sequence[Pair]) -> str:
    more = len(pairs) - NAMED_MAX
    return "; ".join(pair.words for pair in pairs[:NAMED_MAX]) + (f"; and {more:,} more" if more > 0 else "")


async def read_buckets(neighbours: Neighbours, asked: Asked, notes: list[str]) -> dict[str, list[Pair]] | None:
    """By device, those that are not the same at both tiers. None, and a note: a service does not tell."""
    reading = await read_kind(neighbours, KIND, asked, notes)
    if reading is None:
        return None
    pairs: dict[str, list[Pair]] = {}
    pairs_of: Mapping[UUID, tuple[Record | None, Record | None]] = {
        **{here.id: (here, there) for here, there in reading.differing},
        **{one.id: (one, None) for one in reading.missing},
        **{one.id: (None, one) for one in reading.surplus},
    }
    for edge, cloud in pairs_of.values():
        known = edge or cloud
        assert known is not None  # noqa: S101 - one of the two has it
        pairs.setdefault(known.device_id, []).append(
            Pair(_bucket(edge) if edge else None, _bucket(cloud) if cloud else None)
        )
    return pairs


def _bucket(record: Record) -> Bucket:
    metric, sensor, unit, window, count, total, low, high, is_unsent = json.loads(record.content)
    return Bucket(metric, sensor, unit, window, record.at, count, total, low, high, is_unsent)

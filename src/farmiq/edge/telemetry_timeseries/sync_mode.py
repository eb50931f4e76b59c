"""What the cloud is told of measurements: every sample, the aggregates of closed windows, or both (`TELEMETRY_SYNC_MODE`)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from farmiq.timeseries.rollup import WINDOW_MICROSECONDS, Bucket

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


def to_tell(touched: Iterable[Bucket], plan: SyncPlan) -> list[Bucket]:
    """Of the aggregates that have changed: those of the window that the cloud is told of."""
    return [bucket for bucket in touched if bucket.window == plan.window]


def is_recent(bucket_start_at: datetime, window: str, now: datetime) -> bool:
    """Closed just now, and not opened again by a replay: such an aggregate goes ahead of a backlog."""
    return now - bucket_start_at < 3 * timedelta(microseconds=WINDOW_MICROSECONDS[window])

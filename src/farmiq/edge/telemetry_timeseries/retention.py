"""Which months of raw samples may go. Pure: times and spans in, names out."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from farmiq.kit.month_partitions import Partition

CLOCK_SLACK: Final = timedelta(days=1)
"""By how much the gateway's clock, which says when a sample came in, and the database's may disagree."""


class Span(msgspec.Struct, frozen=True):
    """An event that the cloud does not have: from its first sample to its last, both included, and when it was written."""

    first_at: datetime
    last_at: datetime
    created_at: datetime


class Unsent(msgspec.Struct, frozen=True):
    """Everything measured that the cloud does not have; or, when there was too much to look at, only a part of it."""

    spans: Sequence[Span]
    is_complete: bool

    def reaches(self, lower_at: datetime, upper_at: datetime) -> bool:
        """Whether a sample on or after `lower_at` and before `upper_at` may be missing in the cloud."""
        return not self.is_complete or any(span.first_at < upper_at and span.last_at >= lower_at for span in self.spans)

    def came_before(self, moment: datetime) -> bool:
        """Whether a sample that came in before then may be missing in the cloud."""
        return not self.is_complete or any(span.created_at < moment + CLOCK_SLACK for span in self.spans)


class Judgement(msgspec.Struct, frozen=True):
    """Past their retention: those that the cloud has, and those that it may not have."""

    synced: list[Partition]
    held: list[Partition]


def cutoff_of(now: datetime, retention_days: int) -> datetime:
    """What was measured on or after this moment is within its retention."""
    return now - timedelta(days=retention_days)


def expired(partitions: Sequence[Partition], cutoff: datetime) -> list[Partition]:
    """Those that hold no moment within retention. A month goes when its last day has passed, not when its first has."""
    return [partition for partition in partitions if partition.upper_at <= cutoff]


def judge(partitions: Sequence[Partition], cutoff: datetime, unsent: Unsent) -> Judgement:
    judgement = Judgement([], [])
    for partition in expired(partitions, cutoff):
        is_held = unsent.reaches(partition.lower_at, partition.upper_at)
        (judgement.held if is_held else judgement.synced).append(partition)
    return judgement

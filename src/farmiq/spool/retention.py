"""Which segments go, and at what price. Pure: the folder is not looked at here."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from farmiq.spool.segment import Segment

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SEGMENT_BYTES_MIN = 4 * KIB
SEGMENTS_PER_SPOOL_MIN = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a spool and its segments may grow, and how long it may hold them."""

    segment_bytes: int = 128 * MIB
    segment_seconds: float = 3600.0
    grow_bytes: int = 4 * MIB
    max_spool_bytes: int = GIB
    keep_free_bytes: int = 0
    keep_acked_bytes: int = 256 * MIB
    # What the spool takes even when the disk's free space is below the floor: somebody else's files must not make it
    # throw away everything it holds.
    assured_bytes: int = 64 * MIB
    # None: however old. Counted in time during which the node ran, see `held_us`.
    max_spool_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.segment_bytes < SEGMENT_BYTES_MIN:
            raise ValueError(f"segment_bytes is {self.segment_bytes}, the least is {SEGMENT_BYTES_MIN}")
        if self.max_spool_bytes < SEGMENTS_PER_SPOOL_MIN * self.segment_bytes:
            raise ValueError(
                f"max_spool_bytes is {self.max_spool_bytes}, the least for segments of {self.segment_bytes} bytes"
                f" is {SEGMENTS_PER_SPOOL_MIN * self.segment_bytes}"
            )
        if self.max_spool_seconds is not None and not self.max_spool_seconds > 0:
            raise ValueError(f"max_spool_seconds is {self.max_spool_seconds}, and must be above 0 or not set")


def default_max_spool_bytes(filesystem_bytes: int) -> int:
    return min(max(GIB, filesystem_bytes // 20), 25 * GIB)


def fitting_segment_bytes(max_spool_bytes: int) -> int:
    """Segments small enough that dropping the oldest one costs an eighth of the spool and no more."""
    return max(SEGMENT_BYTES_MIN, min(128 * MIB, max_spool_bytes // 8))


class Stretch(NamedTuple):
    """What a segment shows of its node's running time: the monotonic times of its first and its last frame."""

    boot_id: UUID
    first_us: int
    last_us: int


def held_us(stretches: Sequence[Stretch | None]) -> list[int]:
    """For each segment, oldest first: how long the node ran between its last frame and the last frame of all.

    No wall clock is asked, neither the node's nor the samples': one that jumps by years makes nothing old, and one that
    falls back makes nothing young. What cannot be known counts as no time, so nothing is ever thought older than it is:
    the time between two boots, and a segment whose frames cannot be read (None).
    """
    ages = [0] if stretches else []
    for after, before in itertools.pairwise(reversed(stretches)):
        ages.append(ages[-1] + _passed_us(before, after))
    return ages[::-1]


def _passed_us(before: Stretch | None, after: Stretch | None) -> int:
    """From the last frame of one segment to the last frame of the next."""
    if after is None:
        return 0
    began_us = before.last_us if before is not None and before.boot_id == after.boot_id else after.first_us
    return max(0, after.last_us - began_us)


@dataclass(slots=True)
class Plan:
    acked: list[Segment] = field(default_factory=list)
    aged: list[Segment] = field(default_factory=list)
    lost: list[Segment] = field(default_factory=list)

    @property
    def doomed(self) -> list[Segment]:
        return [*self.acked, *self.aged, *self.lost]


def cap_bytes(limits: Limits, used_bytes: int, free_bytes: int) -> int:
    """The cap that holds now: the configured one, lowered while the disk has less free than the floor."""
    by_floor = used_bytes + free_bytes - limits.keep_free_bytes
    return min(limits.max_spool_bytes, max(by_floor, min(limits.assured_bytes, limits.max_spool_bytes)))


def plan(
    closed: Sequence[Segment], held_seconds: Iterable[float], acked_seq: int, used_bytes: int, limits: Limits, cap: int
) -> Plan:
    """Oldest first, so what stays has no hole in it; and the acknowledged ones are always the oldest.

    What is older than the age cap goes in any case. Acknowledged segments stay up to their own budget, for an edge database
    restored from an old backup. When the cap is reached they go before anything else does, and only then the
    unacknowledged ones. Those that go unacknowledged, by age or by the cap, each go with a loss record.
    """
    chosen = Plan()
    acked = [segment for segment in closed if segment.last_seq <= acked_seq]
    spare_bytes = sum(segment.size_bytes for segment in acked)
    for segment, seconds in zip(closed, held_seconds, strict=True):
        is_acked = segment.last_seq <= acked_seq
        is_aged = limits.max_spool_seconds is not None and seconds > limits.max_spool_seconds
        is_spare = is_acked and spare_bytes > limits.keep_acked_bytes
        if used_bytes <= cap and not is_aged and not is_spare:
            break
        (chosen.acked if is_acked else chosen.aged if is_aged else chosen.lost).append(segment)
        used_bytes -= segment.size_bytes
        if is_acked:
            spare_bytes -= segment.size_bytes
    return chosen

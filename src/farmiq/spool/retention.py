"""Which segments go, and at what price. Pure: the folder is not looked at here."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from farmiq.spool.segment import Segment

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SEGMENT_BYTES_MIN = 4 * KIB
SEGMENTS_PER_SPOOL_MIN = 4


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a spool and its segments may grow."""

    segment_bytes: int = 128 * MIB
    segment_seconds: float = 3600.0
    grow_bytes: int = 4 * MIB
    max_spool_bytes: int = GIB
    keep_free_bytes: int = 0
    keep_acked_bytes: int = 256 * MIB
    # What the spool takes even when the disk's free space is below the floor: somebody else's files must not make it
    # throw away everything it holds.
    assured_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        if self.segment_bytes < SEGMENT_BYTES_MIN:
            raise ValueError(f"segment_bytes is {self.segment_bytes}, the least is {SEGMENT_BYTES_MIN}")
        if self.max_spool_bytes < SEGMENTS_PER_SPOOL_MIN * self.segment_bytes:
            raise ValueError(
                f"max_spool_bytes is {self.max_spool_bytes}, the least for segments of {self.segment_bytes} bytes"
                f" is {SEGMENTS_PER_SPOOL_MIN * self.segment_bytes}"
            )


def default_max_spool_bytes(filesystem_bytes: int) -> int:
    return min(max(GIB, filesystem_bytes // 20), 25 * GIB)


def fitting_segment_bytes(max_spool_bytes: int) -> int:
    """Segments small enough that dropping the oldest one costs an eighth of the spool and no more."""
    return max(SEGMENT_BYTES_MIN, min(128 * MIB, max_spool_bytes // 8))


@dataclass(slots=True)
class Plan:
    acked: list[Segment] = field(default_factory=list)
    lost: list[Segment] = field(default_factory=list)


def cap_bytes(limits: Limits, used_bytes: int, free_bytes: int) -> int:
    """The cap that holds now: the configured one, lowered while the disk has less free than the floor."""
    by_floor = used_bytes + free_bytes - limits.keep_free_bytes
    return min(limits.max_spool_bytes, max(by_floor, min(limits.assured_bytes, limits.max_spool_bytes)))


def plan(closed: Sequence[Segment], acked_seq: int, used_bytes: int, limits: Limits, cap: int) -> Plan:
    """Oldest first, so what stays has no hole in it; and the acknowledged ones are always the oldest.

    Acknowledged segments stay up to their own budget, for an edge database restored from an old backup. When the cap is
    reached they go before anything else does, and only then the unacknowledged ones, each with a loss record.
    """
    chosen = Plan()
    acked = [segment for segment in closed if segment.last_seq <= acked_seq]
    spare_bytes = sum(segment.size_bytes for segment in acked)
    for segment in closed:
        is_acked = segment.last_seq <= acked_seq
        if used_bytes <= cap and not (is_acked and spare_bytes > limits.keep_acked_bytes):
            break
        (chosen.acked if is_acked else chosen.lost).append(segment)
        used_bytes -= segment.size_bytes
        if is_acked:
            spare_bytes -= segment.size_bytes
    return chosen

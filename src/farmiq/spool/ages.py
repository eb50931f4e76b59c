"""How long closed segments have been held, on a clock that nobody can set.

In the life of a process that is its monotonic clock, from the moment at which a segment was first seen closed. Across a
start it is the running time that the frames themselves show; see `retention.held_us`.
"""

from collections.abc import Callable, Sequence

from farmiq.spool.retention import Stretch, held_us
from farmiq.spool.segment import OpenSegment, Segment
from farmiq.spool.segment_file import SegmentFile


class Ages:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._closed_at: dict[int, float] = {}

    def look_back(self, closed: Sequence[Segment], open_segment: OpenSegment | None) -> None:
        """At a start: two frames of every segment are read, so this is done only where there is an age cap."""
        stretches = [_stretch(SegmentFile.open(entry.path, entry.first_seq), entry.last_seq) for entry in closed]
        newest = SegmentFile.open(open_segment.path, open_segment.first_seq) if open_segment else None
        stretches.append(_stretch(newest, open_segment.synced_seq if open_segment else 0))
        now = self._monotonic()
        for entry, passed_us in zip(closed, held_us(stretches), strict=False):  # the last one is the open segment's
            self._closed_at[entry.first_seq] = now - passed_us / 1_000_000

    def note(self, closed: Sequence[Segment]) -> None:
        """Whenever segments may have been closed: one not seen before is new."""
        now = self._monotonic()
        self._closed_at = {entry.first_seq: self._closed_at.get(entry.first_seq, now) for entry in closed}

    def held_seconds(self, closed: Sequence[Segment]) -> list[float]:
        now = self._monotonic()
        return [now - self._closed_at.get(entry.first_seq, now) for entry in closed]


def _stretch(file: SegmentFile | None, last_seq: int) -> Stretch | None:
    if file is None:
        return None
    try:
        first, last = file.frame_at(file.first_seq), file.frame_at(last_seq)
    finally:
        file.close()
    return Stretch(file.header.boot_id, first.monotonic_us, last.monotonic_us) if first and last else None

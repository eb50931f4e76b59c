"""Which segments there are. One writer changes it; readers on other threads see one state or the next, never half of one."""

import bisect
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from farmiq.spool import quarantine
from farmiq.spool.ranges import Range
from farmiq.spool.segment import OpenSegment, Segment


class Place(NamedTuple):
    """A segment to read from, and how far."""

    path: Path
    first_seq: int
    last_seq: int
    is_open: bool


class Catalogue:
    def __init__(self, folder: Path, closed: Iterable[Segment], open_segment: OpenSegment | None) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._state: tuple[tuple[Segment, ...], OpenSegment | None] = (tuple(closed), open_segment)

    @property
    def closed(self) -> tuple[Segment, ...]:
        return self._state[0]

    @property
    def open(self) -> OpenSegment | None:
        return self._state[1]

    def opened(self, segment: OpenSegment) -> None:
        with self._lock:
            self._state = (self._state[0], segment)

    def ended(self, sealed: Segment | None) -> None:
        """The open segment is closed now, or gone when it held nothing."""
        with self._lock:
            self._state = ((*self._state[0], sealed) if sealed else self._state[0], None)

    def removed(self, gone: Collection[Segment]) -> None:
        with self._lock:
            self._state = (tuple(segment for segment in self._state[0] if segment not in gone), self._state[1])

    def locate(self, after_seq: int) -> Place | None:
        """Where the first synced frame above `after_seq` is."""
        closed, segment = self._state
        index = bisect.bisect_right(closed, after_seq, key=lambda entry: entry.last_seq)
        if index < len(closed):
            return Place(closed[index].path, closed[index].first_seq, closed[index].last_seq, is_open=False)
        if segment is not None and segment.synced_frames and segment.synced_seq > after_seq:
            return Place(segment.path, segment.first_seq, segment.synced_seq, is_open=True)
        return None

    def held(self, after_seq: int) -> list[Range]:
        """The synced sequences of every segment that reaches above `after_seq`."""
        closed, segment = self._state
        index = bisect.bisect_right(closed, after_seq, key=lambda entry: entry.last_seq)
        ranges = [(entry.first_seq, entry.last_seq) for entry in closed[index:]]
        if segment is not None and segment.synced_frames and segment.synced_seq > after_seq:
            ranges.append((segment.first_seq, segment.synced_seq))
        return ranges

    @property
    def oldest_seq(self) -> int | None:
        closed, segment = self._state
        if closed:
            return closed[0].first_seq
        return segment.first_seq if segment else None

    @property
    def deletable(self) -> tuple[Segment, ...]:
        """Closed segments without the one that holds the newest frame: it says where the sequence and the producer stand."""
        closed, segment = self._state
        return closed if segment is not None and segment.synced_frames else closed[:-1]

    def used_bytes(self) -> int:
        closed, segment = self._state
        files = sum(entry.size_bytes for entry in closed) + (segment.size_bytes if segment else 0)
        return files + quarantine.size_bytes(self.folder)

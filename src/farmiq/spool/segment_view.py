"""One segment seen from outside: what it holds, and how far an open one may be believed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from farmiq.spool.format import FRAME_BYTES, Header, bad_frames
from farmiq.spool.ranges import Range, runs, without
from farmiq.spool.segment import Segment, closed_segments, open_files
from farmiq.spool.segment_file import SegmentFile, examine

SEQ_MAX = 2**62 - 1
_FRAMES_A_READ = 26_214  # 1 MiB
# A file may go between its name and its size being read. That again and again, each time within microseconds, is no spool.
_LISTINGS_MAX = 100


@dataclass(frozen=True, slots=True)
class SegmentView:
    path: Path
    is_open: bool
    first_seq: int
    last_seq: int  # of an open one: as far as a sync reached, and when nobody writes it as far as a frame can be read
    size_bytes: int
    header: Header | None  # None: neither copy of it can be read
    first_wall_us: int | None  # None: that frame cannot be read
    last_wall_us: int | None
    torn_bytes: int = 0  # begun behind the last frame and never finished; known only when nobody writes

    @property
    def samples(self) -> int:
        return self.last_seq - self.first_seq + 1

    def open(self) -> SegmentFile | None:
        """None when it is gone by now, or cannot be read. One that was closed meanwhile is found under its new name."""
        try:
            return SegmentFile.open(self.path, self.first_seq)
        except FileNotFoundError:
            closed = _closed_since(self.path, self.first_seq)
        try:
            return SegmentFile.open(closed.path, self.first_seq) if closed else None
        except FileNotFoundError:
            return None


def views(folder: Path, synced_seq: int, lost: Sequence[Range], *, is_written: bool) -> list[SegmentView]:
    """Open ones are listed before closed ones, so that one which is renamed in between is seen at least once. Deleting goes
    from the oldest on, so the newest is opened first: where one has gone by then, all before it have, and there is no hole."""
    opened = open_files(folder)
    closed = {entry.first_seq: entry for entry in listed(folder)}
    found = [_closed(entry) for entry in reversed(closed.values())]
    for index, (first_seq, path) in enumerate(opened):
        if first_seq not in closed:
            # After a crash there may be two. The first of them ends where the second begins.
            bound_seq = opened[index + 1][0] - 1 if index + 1 < len(opened) else SEQ_MAX
            found.append(_open(path, (first_seq, bound_seq), synced_seq, lost, is_written=is_written))
    return sorted((view for view in found if view is not None), key=lambda view: view.first_seq)


def listed(folder: Path) -> list[Segment]:
    for _ in range(_LISTINGS_MAX):
        try:
            return closed_segments(folder)
        except FileNotFoundError:
            continue
    return closed_segments(folder)


def _closed(entry: Segment) -> SegmentView | None:
    """None for one that has gone since it was listed."""
    try:
        file = SegmentFile.open(entry.path, entry.first_seq)
    except FileNotFoundError:
        return None
    span = (entry.first_seq, entry.last_seq)
    if file is None:
        return SegmentView(entry.path, False, *span, entry.size_bytes, None, None, None)
    try:
        return SegmentView(entry.path, False, *span, entry.size_bytes, file.header, *_times(file, span))
    finally:
        file.close()


def _open(path: Path, bounds: Range, synced_seq: int, lost: Sequence[Range], *, is_written: bool) -> SegmentView | None:
    first_seq, bound_seq = bounds
    try:
        size_bytes = path.stat().st_size
        file = SegmentFile.open(path, first_seq)
    except FileNotFoundError:
        closed = _closed_since(path, first_seq)
        return _closed(closed) if closed else None
    # Samples that were given up before they came here have sequences too, and a loss record instead of a frame.
    kept = without((first_seq, min(synced_seq, bound_seq)), lost)
    last_seq = kept[-1][1] if kept else first_seq - 1
    if file is None:
        last_seq = max(last_seq, first_seq + _countable(path, first_seq) - 1)
        return SegmentView(path, True, first_seq, last_seq, size_bytes, None, None, None)
    try:
        torn_bytes = 0
        if not is_written:
            frames = (size_bytes - file.region_bytes) // FRAME_BYTES
            last_seq = _last_readable(file, last_seq, min(first_seq + frames - 1, bound_seq))
            torn_bytes = len(file.read(last_seq + 1, 1).rstrip(b"\0")) if last_seq < bound_seq else 0
        times = _times(file, (first_seq, last_seq))
        return SegmentView(path, True, first_seq, last_seq, size_bytes, file.header, *times, torn_bytes)
    finally:
        file.close()


def _closed_since(path: Path, first_seq: int) -> Segment | None:
    return next((entry for entry in listed(path.parent) if entry.first_seq == first_seq), None)


def _countable(path: Path, first_seq: int) -> int:
    try:
        return examine(path, first_seq).frames
    except FileNotFoundError:
        return 0


def _last_readable(file: SegmentFile, synced_seq: int, end_seq: int) -> int:
    """Frames behind the last sync were perhaps never promised, and are kept by the next start where they are good."""
    last_seq = synced_seq
    for seq, count in chunks((synced_seq + 1, end_seq)):
        bad = runs(bad_frames(file.read(seq, count), seq))
        good = bad[-1][0] if bad and bad[-1][1] == count - 1 else count
        last_seq = seq + good - 1 if good else last_seq
    return last_seq


def chunks(span: Range) -> Iterator[tuple[int, int]]:
    """First sequence and count of each read."""
    for seq in range(span[0], span[1] + 1, _FRAMES_A_READ):
        yield seq, min(_FRAMES_A_READ, span[1] - seq + 1)


def _times(file: SegmentFile, span: Range) -> tuple[int | None, int | None]:
    first, last = (file.frame_at(span[0]), file.frame_at(span[1])) if span[0] <= span[1] else (None, None)
    return first.wall_us if first else None, last.wall_us if last else None

"""Whose spool this is, and which stream each of its sequences belongs to.

The spool numbers its samples once and for ever. A stream is what the edge knows: it takes over a part of these numbers and counts
from 1. There is one stream until the edge turns out to hold other samples under its sequences, or until the folder goes on in
another machine; from there on a new stream counts. One file says all that, and is replaced as a whole.
"""

import bisect
import contextlib
import errno
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from farmiq.spool import disk, marks
from farmiq.spool.ranges import Range, merged
from farmiq.spool.segment import closed_segments, open_files
from farmiq.spool.segment_file import SegmentFile

FILE: Final = "stream"
SET_ASIDE: Final = "set-aside"
_SPOOL_FILES: Final = ("*.seg", "*.open", "synced", "acked", "losses", "quarantine")


class Owner(NamedTuple):
    """The device that writes the spool, and a fingerprint of its machine; empty where the machine has none."""

    device_id: str
    machine: str = ""


class Part(NamedTuple):
    """Sequences from `first_seq` on, up to the next part. A sequence less `offset` is its number in the stream."""

    first_seq: int
    stream_id: UUID
    offset: int = 0


class Layout(NamedTuple):
    """What the file `stream` says."""

    owner: Owner | None
    parts: tuple[Part, ...]

    def of(self, seq: int) -> Part:
        return self.parts[max(0, bisect.bisect_right(self.parts, seq, key=lambda part: part.first_seq) - 1)]

    def split(self, span: Range) -> list[tuple[Part, Range]]:
        """`span` cut where a part ends."""
        starts = [part.first_seq for part in self.parts[1:] if span[0] < part.first_seq <= span[1]]
        return [
            (self.of(first), (first, following - 1))
            for first, following in zip([span[0], *starts], [*starts, span[1] + 1], strict=True)
        ]

    def of_stream(self, stream_id: UUID, ranges: Iterable[Range]) -> list[Range]:
        """Numbers of a stream as sequences of the spool, as far as they are in one of its parts."""
        wanted = list(ranges)
        found = []
        for part, following in zip(self.parts, [*self.parts[1:], None], strict=True):
            if part.stream_id == stream_id:
                end_seq = following.first_seq - 1 if following else None
                for first, last in wanted:
                    low, high = max(first + part.offset, part.first_seq), last + part.offset
                    high = high if end_seq is None else min(high, end_seq)
                    found += [(low, high)] if low <= high else []
        return merged(found)


class Streams:
    """The file, and what is in it. Changed by the thread that writes the spool, read by any."""

    def __init__(self, folder: Path, new_id: Callable[[], UUID], owner: Owner | None) -> None:
        self._path = folder / FILE
        self._new_id = new_id
        layout = read(folder)
        self.set_aside: Path | None = None
        if layout is not None and owner and layout.owner and layout.owner.device_id != owner.device_id:
            self.set_aside = _set_aside(folder, layout)
            layout = None
        self.layout = layout or _of_segments(folder, new_id)
        self._owner = owner or self.layout.owner
        if layout is None:
            self._write(Layout(self._owner, self.layout.parts))
        elif layout.owner is None and self._owner is not None:
            self._note_owner()

    @property
    def current(self) -> Part:
        return self.layout.parts[-1]

    def follow_owner(self, next_seq: int) -> bool:
        """In another machine, what is written from `next_seq` on is a stream of its own: the folder may go on in both."""
        known = self.layout.owner
        if self._owner is None or known == self._owner:
            return False
        is_moved = known is not None and bool(known.machine and self._owner.machine)
        if is_moved:
            self.begin(next_seq)
        else:
            self._note_owner()
        return is_moved

    def begin(self, first_seq: int) -> UUID:
        """A new stream from `first_seq` on. Durable when this returns; until then nothing has changed."""
        stream_id = self._new_id()
        before = [part for part in self.layout.parts if part.first_seq < first_seq]
        self._write(Layout(self._owner, (*before, Part(first_seq, stream_id, first_seq - 1))))
        return stream_id

    def _note_owner(self) -> None:
        """A full disk keeps no spool from opening that was there before: then the owner is noted at the next start."""
        layout = Layout(self._owner, self.layout.parts)
        try:
            self._write(layout)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            self.layout = layout

    def _write(self, layout: Layout) -> None:
        disk.replace_file(self._path, _packed(layout))
        self.layout = layout


def read(folder: Path) -> Layout | None:
    """None when there is no such file, or none that can be read."""
    with contextlib.suppress(FileNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        lines = (folder / FILE).read_text().splitlines()
        if len(lines) == 1:
            return Layout(None, (Part(1, UUID(lines[0].strip())),))
        said = json.loads(lines[1])
        owner = Owner(str(said["device_id"]), str(said["machine"])) if said.get("device_id") else None
        return Layout(
            owner, tuple(Part(int(first), UUID(stream), int(offset)) for first, stream, offset in said["parts"])
        )
    return None


def _packed(layout: Layout) -> bytes:
    """The newest stream in the first line, which is all that release 0.1.0 wrote."""
    first = f"{layout.parts[-1].stream_id}\n"
    if layout.owner is None and layout.parts == (Part(1, layout.parts[-1].stream_id),):
        return first.encode()
    owner = layout.owner or Owner("")
    parts = [[part.first_seq, str(part.stream_id), part.offset] for part in layout.parts]
    said = {"device_id": owner.device_id, "machine": owner.machine, "parts": parts}
    return (first + json.dumps(said, separators=(",", ":")) + "\n").encode()


def _of_segments(folder: Path, new_id: Callable[[], UUID]) -> Layout:
    """As far as the segments tell. Where they tell of several streams, nobody knows any more which numbers were whose: what the
    edge has not acknowledged begins a new one."""
    streams = _streams_of_segments(folder)
    if len(set(streams)) < 2:
        return Layout(None, (Part(1, streams[0] if streams else new_id()),))
    acked_seq = marks.read(folder / "acked").seq
    return Layout(None, (Part(1, streams[0]), Part(acked_seq + 1, new_id(), acked_seq)))


def _streams_of_segments(folder: Path) -> list[UUID]:
    found = []
    for first_seq, path in [(entry.first_seq, entry.path) for entry in closed_segments(folder)] + open_files(folder):
        file = SegmentFile.open(path, first_seq)
        if file is not None:
            file.close()
            found.append(file.header.stream_id)
    return found


def _set_aside(folder: Path, layout: Layout) -> Path:
    """What another device's spool holds is neither sent nor deleted here. The file `stream` goes last: while it is there, a start
    finds it and goes on with the rest."""
    name = str(layout.parts[-1].stream_id)
    targets = (folder / SET_ASIDE / (f"{name}.{number}" if number else name) for number in itertools.count())
    target = next(path for path in targets if not (path / FILE).exists())
    disk.make_folder(target)
    for pattern in _SPOOL_FILES:
        for path in sorted(folder.glob(pattern)):
            path.rename(target / path.name)
    disk.sync_folder(target)
    disk.sync_folder(folder)
    (folder / FILE).rename(target / FILE)
    disk.sync_folder(target)
    disk.sync_folder(folder)
    return target

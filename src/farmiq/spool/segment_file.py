"""Reading a segment where it lies. A frame's place follows from its sequence, so nothing is searched for."""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from farmiq.spool.format import (
    FRAME_BYTES,
    REGION_BYTES_MAX,
    REGION_BYTES_MIN,
    Frame,
    Header,
    bad_frames,
    unpack_frames,
    unpack_header,
)
from farmiq.spool.ranges import Range, runs

_FRAMES_A_READ = 26_214  # 1 MiB


class SegmentFile:
    """One segment opened for reading. It stays readable while its name changes or goes."""

    def __init__(self, fd: int, header: Header, region_bytes: int) -> None:
        self.header = header
        self.region_bytes = region_bytes
        self._fd = fd

    @classmethod
    def open(cls, path: Path, first_seq: int) -> "SegmentFile | None":
        """None when neither copy of the header can be read."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = _header_of(fd, first_seq)
        if found is None:
            os.close(fd)
            return None
        return cls(fd, *found)

    @property
    def first_seq(self) -> int:
        return self.header.first_seq

    def read(self, start_seq: int, frames: int) -> bytes:
        """`frames` whole frames. What cannot be read comes as zeros, which are no frame."""
        return _read(self._fd, self.region_bytes + (start_seq - self.first_seq) * FRAME_BYTES, frames)

    def frame_at(self, seq: int) -> Frame | None:
        if seq < self.first_seq:
            return None
        data = self.read(seq, 1)
        return None if bad_frames(data, seq) else unpack_frames(data)[0]

    def last_frame(self, last_seq: int) -> Frame | None:
        """The last readable frame at or before `last_seq`."""
        seqs = range(last_seq, self.first_seq - 1, -1)
        return next((frame for frame in map(self.frame_at, seqs) if frame is not None), None)

    def damage_from(self, start_seq: int, last_seq: int) -> Range:
        """From the bad frame at `start_seq`: as far as nothing can be read."""
        for seq in range(start_seq, last_seq + 1, _FRAMES_A_READ):
            count = min(_FRAMES_A_READ, last_seq + 1 - seq)
            bad = bad_frames(self.read(seq, count), seq)
            if len(bad) < count:
                stretch = runs(bad)[0][1] + 1 if bad and bad[0] == 0 else 0
                return start_seq, seq + stretch - 1
        return start_seq, last_seq

    def wall_us_around(self, span: Range) -> Range | None:
        """When a lost range was captured, as near as its readable neighbours tell."""
        near = [frame.wall_us for frame in (self.frame_at(span[0] - 1), self.frame_at(span[1] + 1)) if frame]
        return (near[0], near[-1]) if near else None

    def close(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Examined:
    """What a segment that was not closed properly turned out to hold."""

    header: tuple[Header, int] | None
    frames: int  # up to and with the last good one
    damaged: list[Range]  # sequences before that one that cannot be read
    torn_bytes: int  # behind it: begun, never finished


def examine(path: Path, first_seq: int) -> Examined:
    """Walk a whole file. Zeros and a torn frame after the last good one are not damage: nothing was promised there."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _header_of(fd, first_seq)
        if found is not None:
            frames, damaged = _walk(fd, found[1], first_seq)
            torn = os.pread(fd, FRAME_BYTES, found[1] + frames * FRAME_BYTES)
            return Examined(found, frames, damaged, len(torn.rstrip(b"\0")))
        # Both copies of the header are gone. The frames are still counted, so that what is lost can be named exactly.
        return Examined(None, max(_walk(fd, region, first_seq)[0] for region in _possible_regions()), [], 0)
    finally:
        os.close(fd)


def _header_of(fd: int, first_seq: int) -> tuple[Header, int] | None:
    found = unpack_header(_read(fd, 0, -(-REGION_BYTES_MAX // FRAME_BYTES)))
    return found if found is not None and found[0].first_seq == first_seq else None


def _read(fd: int, offset: int, frames: int) -> bytes:
    try:
        data = os.pread(fd, frames * FRAME_BYTES, offset)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # One bad sector must not hide its neighbours: ask for each frame alone.
        if frames == 1:
            return bytes(FRAME_BYTES)
        return b"".join(_read(fd, offset + index * FRAME_BYTES, 1) for index in range(frames))
    return data.ljust(frames * FRAME_BYTES, b"\0")


def _walk(fd: int, region_bytes: int, first_seq: int) -> tuple[int, list[Range]]:
    frames, damaged = 0, list[Range]()
    for index, data in _chunks(fd, region_bytes):
        count, seq = len(data) // FRAME_BYTES, first_seq + index
        bad = bad_frames(data, seq)
        stretches = runs(bad) if len(bad) < count else [(0, count - 1)]
        damaged += [(seq + first, seq + last) for first, last in stretches]
        if len(bad) < count:
            frames = index + (stretches[-1][0] if stretches and stretches[-1][1] == count - 1 else count)
    return frames, [span for span in damaged if span[0] < first_seq + frames]


def _chunks(fd: int, region_bytes: int) -> Iterator[tuple[int, bytes]]:
    total = max(0, os.fstat(fd).st_size - region_bytes) // FRAME_BYTES
    for index in range(0, total, _FRAMES_A_READ):
        yield index, _read(fd, region_bytes + index * FRAME_BYTES, min(_FRAMES_A_READ, total - index))


def _possible_regions() -> list[int]:
    regions = [REGION_BYTES_MIN]
    while regions[-1] < REGION_BYTES_MAX:
        regions.append(regions[-1] * 2)
    return regions

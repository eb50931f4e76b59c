"""One file of the spool: made, appended to, synced, sealed."""

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from farmiq.spool import disk
from farmiq.spool.format import FRAME_BYTES, Header, pack_header

_CLOSED = re.compile(r"^(\d{20})-(\d{20})\.seg\Z")
_OPEN = re.compile(r"^(\d{20})\.open\Z")


@dataclass(frozen=True, slots=True)
class Segment:
    """A closed segment. Its name says which sequences it holds, so a start needs no look inside."""

    path: Path
    first_seq: int
    last_seq: int
    size_bytes: int


def closed_path(folder: Path, first_seq: int, last_seq: int) -> Path:
    return folder / f"{first_seq:020d}-{last_seq:020d}.seg"


def open_path(folder: Path, first_seq: int) -> Path:
    return folder / f"{first_seq:020d}.open"


def closed_segments(folder: Path) -> list[Segment]:
    names = ((path, _CLOSED.match(path.name)) for path in folder.iterdir())
    found = [Segment(path, int(name[1]), int(name[2]), path.stat().st_size) for path, name in names if name]
    return sorted(found, key=lambda segment: segment.first_seq)


def open_files(folder: Path) -> list[tuple[int, Path]]:
    """First sequence and path. There is one, except after a crash beside a rename that the disk forgot."""
    names = ((path, _OPEN.match(path.name)) for path in folder.iterdir())
    return sorted((int(name[1]), path) for path, name in names if name)


class OpenSegment:
    """The segment being written. Bytes between the logical end and the end of the file are reserved space, not frames."""

    def __init__(self, path: Path, fd: int, header: Header, region_bytes: int, frames: int) -> None:
        self.path = path
        self.header = header
        self.region_bytes = region_bytes
        self.frames = frames
        self.synced_frames = frames
        self.is_given_up = False
        self._fd = fd
        self._reserved_bytes = self.end_bytes

    @classmethod
    def create(cls, folder: Path, header: Header, reserve_bytes: int) -> "OpenSegment":
        region = pack_header(header)
        path = open_path(folder, header.first_seq)
        path.unlink(missing_ok=True)  # left when the disk refused the making of it and then even its removal
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            disk.allocate(fd, 0, max(reserve_bytes, len(region)))
            disk.write_all(fd, region, 0)
            disk.sync_file(fd)
            disk.sync_folder(folder)
        except BaseException:
            os.close(fd)
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        segment = cls(path, fd, header, len(region), 0)
        segment._reserved_bytes = max(reserve_bytes, len(region))
        return segment

    @classmethod
    def reopen(cls, path: Path, header: Header, region_bytes: int, frames: int) -> "OpenSegment":
        """Go on after `frames` good frames, once `cut` has removed what stands behind them."""
        return cls(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), header, region_bytes, frames)

    def cut(self) -> None:
        """Remove what is behind the logical end, or it could be read as frames later; and store what is before it."""
        os.ftruncate(self._fd, self.end_bytes)
        disk.sync_file(self._fd)

    def give_up_after(self, frames: int) -> None:
        """Believe only the first `frames`, and add none: the rest may be in memory and never reach the disk."""
        self.frames = self.synced_frames = frames
        self.is_given_up = True

    @property
    def first_seq(self) -> int:
        return self.header.first_seq

    @property
    def end_bytes(self) -> int:
        """The logical end: where the next frame goes."""
        return self.region_bytes + self.frames * FRAME_BYTES

    @property
    def size_bytes(self) -> int:
        return self._reserved_bytes

    @property
    def synced_seq(self) -> int:
        return self.first_seq + self.synced_frames - 1

    def shortfall_bytes(self, more_bytes: int) -> int:
        """How much more must be reserved before `more_bytes` fit behind the logical end."""
        return max(0, self.end_bytes + more_bytes - self._reserved_bytes)

    def reserve(self, more_bytes: int) -> None:
        disk.allocate(self._fd, self._reserved_bytes, more_bytes)
        self._reserved_bytes += more_bytes

    def append(self, packed: bytes) -> None:
        disk.write_all(self._fd, packed, self.end_bytes)
        self.frames += len(packed) // FRAME_BYTES

    def sync(self) -> None:
        disk.sync_data(self._fd)
        self.synced_frames = self.frames

    def seal(self) -> Segment:
        """Close at the last synced frame. The name bounds the frames, so they are safe whatever becomes of the cut."""
        end_bytes = self.region_bytes + self.synced_frames * FRAME_BYTES
        # Giving back reserved space is a kindness to the disk; on a failing one it must not cost the frames.
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, end_bytes)
            disk.sync_file(self._fd)
        sealed = Segment(
            closed_path(self.path.parent, self.first_seq, self.synced_seq), self.first_seq, self.synced_seq, end_bytes
        )
        self.path.rename(sealed.path)
        os.close(self._fd)
        return sealed

    def discard(self) -> None:
        """Remove a segment that holds nothing synced."""
        self.path.unlink()
        os.close(self._fd)

    def close(self) -> None:
        os.close(self._fd)

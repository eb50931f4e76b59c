"""Two positions that outlive the process: how far the disk has stored, and how far the edge has acknowledged.

Both files are reserved when they are made and rewritten in place, one of two slots in turn: a torn write leaves the other
slot, and a full disk stops neither.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from zlib import crc32

from farmiq.spool import disk

_SLOT_BYTES = 512  # one sector, so that the slots do not share one
_SLOT = Struct("<IQQ128s")  # CRC-32 of the rest, turn, sequence, epoch
EPOCH_BYTES_MAX = 128


@dataclass(frozen=True, slots=True)
class Acked:
    """How far the edge holds everything, and which edge database said so."""

    seq: int = 0
    epoch: str = ""


class _Slots:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if os.fstat(self._fd).st_size < 2 * _SLOT_BYTES:
            disk.allocate(self._fd, 0, 2 * _SLOT_BYTES)
            disk.sync_folder(path.parent)
        # A killed process may have left a slot that only memory holds. What is believed from here on is stored first.
        disk.sync_file(self._fd)
        self._turn, self.newest = _newest(os.pread(self._fd, 2 * _SLOT_BYTES, 0))

    def write(self, value: Acked) -> None:
        self._turn += 1
        rest = _SLOT.pack(0, self._turn, value.seq, value.epoch.encode())[4:]
        disk.write_all(self._fd, crc32(rest).to_bytes(4, "little") + rest, self._turn % 2 * _SLOT_BYTES)

    def sync(self) -> None:
        disk.sync_file(self._fd)

    def close(self) -> None:
        os.close(self._fd)


def read(path: Path) -> Acked:
    """What a mark says, for somebody who does not own it. One that is not there says nothing."""
    try:
        return _newest(path.read_bytes())[1]
    except FileNotFoundError:
        return Acked()


def _newest(data: bytes) -> tuple[int, Acked]:
    return max(_readable(data), key=lambda slot: slot[0], default=(0, Acked()))


def _readable(data: bytes) -> Iterator[tuple[int, Acked]]:
    for start in range(0, len(data) - _SLOT.size + 1, _SLOT_BYTES)[:2]:
        crc, turn, seq, epoch = _SLOT.unpack_from(data, start)
        if crc == crc32(data[start + 4 : start + _SLOT.size]):
            yield turn, Acked(seq, epoch.rstrip(b"\0").decode())


class SyncedMark:
    """The last sequence that a sync covered, noted after each one and left to the kernel to write back.

    It tells damage from a torn tail: a frame at or below the mark was stored once, so if it cannot be read it is lost and
    is declared; a frame above it may never have been promised to anyone. A killed process loses nothing of it. A power
    cut may set it back by the kernel's write-back time, which only makes it cautious: it is never ahead of the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._slots = _Slots(folder / "synced")
        self.seq = self._slots.newest.seq

    def note(self, seq: int) -> None:
        self._slots.write(Acked(seq))
        self.seq = seq

    def close(self) -> None:
        self._slots.close()


class AckMark:
    """Kept in memory at once, and on disk before anything is deleted by it. An unreadable file counts as none: the edge
    then gets again what it has, and knows it."""

    def __init__(self, folder: Path) -> None:
        self._slots = _Slots(folder / "acked")
        self._saved = self.current = self._slots.newest

    def save(self) -> None:
        if self.current != self._saved:
            self._slots.write(self.current)
            self._slots.sync()
            self._saved = self.current

    def close(self) -> None:
        self._slots.close()

"""The limit: what a Python process can pack, check and write when it does nothing else. Frames as the spool has them."""

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from zlib import crc32

from stores import PIECE_SAMPLES, Reading, Sample, Store

FRAME_BYTES = 40
_BODY = Struct("<HBBQqQd")
_CRC = Struct("<I")
_WHOLE = Struct("<HBBQqQdI")


class BareLoop(Store):
    def __init__(self, folder: Path) -> None:
        path = folder / "frames"
        self._frames = _good_frames(path.read_bytes()) if path.exists() else 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def append(self, group: list[Sample]) -> None:
        parts: list[bytes] = []
        seq = self._frames
        for wall_us, monotonic_us, channel, quality, value in group:
            body = _BODY.pack(FRAME_BYTES, 1, quality, seq, wall_us, monotonic_us << 16 | channel, value)
            parts.append(body)
            parts.append(_CRC.pack(crc32(body)))
            seq += 1
        os.write(self._fd, b"".join(parts))
        self._frames = seq

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def pieces(self) -> Iterator[int]:
        for offset in range(0, self._frames * FRAME_BYTES, PIECE_SAMPLES * FRAME_BYTES):
            yield len(list(_WHOLE.iter_unpack(os.pread(self._fd, PIECE_SAMPLES * FRAME_BYTES, offset))))

    def readings(self) -> Iterator[Reading]:
        frames = _WHOLE.iter_unpack(os.pread(self._fd, self._frames * FRAME_BYTES, 0))
        for _length, _kind, _quality, _seq, wall_us, channel, value, _crc in frames:
            yield wall_us // 1000, channel & 0xFFFF, value


def _good_frames(data: bytes) -> int:
    for offset in range(0, len(data) - FRAME_BYTES + 1, FRAME_BYTES):
        body_end = offset + FRAME_BYTES - _CRC.size
        if crc32(data[offset:body_end]) != _CRC.unpack_from(data, body_end)[0]:
            return offset // FRAME_BYTES
    return len(data) // FRAME_BYTES

"""A picture without what its camera wrote beside it: place, time, owner, serial number, comments, a second small picture.

Nothing is decoded, and no pixel changes: segments and chunks that say nothing about how the picture is shown are left out. Of
Exif the orientation alone is kept, and only when it turns the picture.

**Frozen.** An edge writes down size and checksum of the result when a picture is stored, and makes the bytes once more when it
sends them, perhaps a release later. A change of what is left out, or in which order, makes every picture that still waits differ.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from farmiq.kit.picture_outline import BrokenOutline, jpeg_segments, outline
from farmiq.kit.pictures import NotAPicture

PARTS_MAX: Final = 20_000
"""A picture has a few dozen. Each costs a step of Python."""

_EXIF: Final = b"Exif\x00\x00"
_PNG_HEAD: Final = 8
# Critical chunks and those that say how pixels are shown.
_PNG_KEPT: Final = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP sBIT pHYs bKGD hIST sPLT cICP mDCV cLLI".split()
)
_WEBP_KEPT: Final = frozenset((b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ICCP"))
_WEBP_EXIF, _WEBP_XMP = 0x08, 0x04


def without_notes(data: bytes) -> bytes:
    """The same bytes when there is nothing to leave out. `NotAPicture` for what is none."""
    try:
        seen = outline(data)
        if seen is None:
            raise NotAPicture("the bytes are neither JPEG, PNG nor WebP")
        body = {"jpeg": _jpeg, "png": _png, "webp": _webp}[seen.format](data[: seen.end])
    except (BrokenOutline, struct.error, IndexError) as error:
        raise NotAPicture(str(error)) from error
    return body + data[seen.end :]


def _jpeg(data: bytes) -> bytes:
    kept: list[bytes] = []
    first = 0  # how many of the kept parts stand before the notes: the start, and what JFIF says of itself
    orientation, at = 1, 0
    for number, (begin, marker, end) in enumerate(jpeg_segments(data)):
        _count(number)
        body = data[begin + 4 : end]
        if marker == 0xE1 and body.startswith(_EXIF) and orientation == 1:
            orientation = _orientation(body[len(_EXIF) :])
        if _is_jpeg_note(marker, body):
            kept.append(data[at:begin])
            at = end
        elif marker == 0xE0 and not first:
            kept.append(data[at:end])
            at, first = end, len(kept)
    kept.append(data[at:])
    if orientation != 1:
        note = _EXIF + _tiff(orientation)
        segment = b"\xff\xe1" + struct.pack(">H", len(note) + 2) + note
        if first:
            kept.insert(first, segment)
        else:
            kept = [data[:2], segment, b"".join(kept)[2:]]
    return b"".join(kept)


def _is_jpeg_note(marker: int, body: bytes) -> bool:
    if marker == 0xFE:
        return True
    if not 0xE0 <= marker <= 0xEF:
        return False
    is_about_pixels = (
        (marker == 0xE0 and body.startswith(b"JFIF\x00"))
        or (marker == 0xE2 and body.startswith(b"ICC_PROFILE\x00"))
        or (marker == 0xEE and body.startswith(b"Adobe"))
    )
    return not is_about_pixels


def _png(data: bytes) -> bytes:
    kept = [data[:_PNG_HEAD]]
    orientation, at, number = 1, _PNG_HEAD, 0
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"eXIf":
            orientation = _orientation(data[at + 8 : at + 8 + length])
        if kind in _PNG_KEPT:
            kept.append(data[at : at + 12 + length])
        at, number = at + 12 + length, number + 1
        _count(number)
    if orientation != 1:
        note = b"eXIf" + _tiff(orientation)
        kept.insert(2, struct.pack(">I", len(note) - 4) + note + struct.pack(">I", zlib.crc32(note)))
    return b"".join(kept)


def _webp(data: bytes) -> bytes:
    kept: list[tuple[bytes, bytes]] = []
    orientation, at, number = 1, 12, 0
    while at + 8 <= len(data):
        kind, length = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 8 + length]
        if kind == b"EXIF":
            orientation = _orientation(body.removeprefix(_EXIF))
        if kind in _WEBP_KEPT:
            kept.append((kind, body))
        at, number = at + 8 + length + length % 2, number + 1
        _count(number)
    if kept and kept[0][0] == b"VP8X":
        flags = kept[0][1][0] & ~(_WEBP_EXIF | _WEBP_XMP)
        if orientation != 1:
            flags |= _WEBP_EXIF
            kept.append((b"EXIF", _tiff(orientation)))
        kept[0] = (b"VP8X", bytes([flags]) + kept[0][1][1:])
    chunks = b"".join(kind + struct.pack("<I", len(body)) + body + b"\x00" * (len(body) % 2) for kind, body in kept)
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


def _orientation(tiff: bytes) -> int:
    """1 when it is not given, or makes no sense: then the picture is shown as it lies."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (directory,) = struct.unpack_from(f"{order}I", tiff, 4)
        for tag, kind, count, value in _entries(tiff, order, directory):
            if (tag, kind, count) == (0x0112, 3, 1):
                return value if 1 <= value <= 8 else 1
    except struct.error:
        return 1
    return 1


def _entries(tiff: bytes, order: str, directory: int) -> Iterator[tuple[int, int, int, int]]:
    (count,) = struct.unpack_from(f"{order}H", tiff, directory)
    for number in range(count):
        yield struct.unpack_from(f"{order}HHIH", tiff, directory + 2 + 12 * number)


def _tiff(orientation: int) -> bytes:
    """One directory with one entry."""
    return b"MM\x00*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def _count(number: int) -> None:
    if number > PARTS_MAX:
        raise NotAPicture(f"it has more than {PARTS_MAX} parts")

"""What the bytes of a picture say of themselves, read without decoding a pixel: format, size, frames, and where it ends.

A decoder takes memory as soon as it knows the size, some of them while they are being opened: so the size is read here first.
And a decoder stops at the end of the picture and never looks at what follows, which is where a polyglot has its second face.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

Format = Literal["jpeg", "png", "webp"]

_PNG_START: Final = b"\x89PNG\r\n\x1a\n"
# A marker that means something: neither a stuffed byte, a restart, nor fill before the real marker.
_JPEG_MARKER: Final = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_JPEG_STANDALONE: Final = frozenset({0x01, 0xD8})
_JPEG_END: Final = 0xD9
_JPEG_SIZES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class BrokenOutline(Exception):
    """The bytes begin like a picture and do not go on like one: cut short, or put together wrongly."""


class Outline(msgspec.Struct, frozen=True):
    """`end` is the first byte after the picture."""

    format: Format
    width: int
    height: int
    frames: int
    end: int


def format_of(data: bytes) -> Format | None:
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(_PNG_START):
        return "png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return None


def outline(data: bytes) -> Outline | None:
    """None: no picture of ours. `BrokenOutline`: the beginning of one."""
    match format_of(data):
        case "jpeg":
            return _jpeg(data)
        case "png":
            return _png(data)
        case "webp":
            return _webp(data)
    return None


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Begin, marker and end of each segment. What follows a start of scan has no length and ends at the next marker."""
    at = 2
    while (found := _JPEG_MARKER.search(data, at)) is not None:
        marker, at = data[found.end() - 1], found.end()
        if marker == _JPEG_END:
            yield found.start(), marker, at
            return
        if marker in _JPEG_STANDALONE:
            continue
        at += _number(data, at, 2)
        yield found.start(), marker, at
    raise BrokenOutline("the JPEG has no end")


def _jpeg(data: bytes) -> Outline:
    size: tuple[int, int] | None = None
    for begin, marker, end in jpeg_segments(data):
        if marker == _JPEG_END:
            if size is None:
                raise BrokenOutline("the JPEG ends before it has said its size")
            return Outline("jpeg", *size, frames=1, end=end)
        if marker in _JPEG_SIZES and size is None:
            size = _number(data, begin + 7, 2), _number(data, begin + 5, 2)
    raise BrokenOutline("the JPEG has no end")


def _png(data: bytes) -> Outline:
    size: tuple[int, int] | None = None
    frames, at = 1, len(_PNG_START)
    while True:
        length, kind = _number(data, at, 4), data[at + 4 : at + 8]
        body, at = at + 8, at + 12 + length
        if at > len(data):
            raise BrokenOutline("the PNG is cut short")
        if kind == b"IHDR":
            size = _number(data, body, 4), _number(data, body + 4, 4)
        elif kind == b"acTL":
            frames = max(2, _number(data, body, 4))
        elif kind == b"IEND":
            if size is None:
                raise BrokenOutline("the PNG ends before it has said its size")
            return Outline("png", *size, frames=frames, end=at)


def _webp(data: bytes) -> Outline:
    """The container's size leaves itself out; an odd chunk is followed by a byte of padding that its size leaves out."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise BrokenOutline("the WebP is cut short")
    size: tuple[int, int] | None = None
    frames, at = 0, 12
    while at + 8 <= end:
        kind, length, body = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little"), at + 8
        at = body + length + length % 2
        if kind in (b"VP8X", b"VP8 ", b"VP8L"):
            size = size or _webp_size(kind, data[body : body + min(length, 10)])
        frames += kind in (b"ANMF", b"VP8 ", b"VP8L")
    if size is None or at > end + 1:
        raise BrokenOutline("the WebP holds no whole picture")
    return Outline("webp", *size, frames=frames, end=end)


def _webp_size(kind: bytes, body: bytes) -> tuple[int, int]:
    if kind == b"VP8X":
        return 1 + _little(body, 4, 3), 1 + _little(body, 7, 3)
    if kind == b"VP8 ":
        return _little(body, 6, 2) & 0x3FFF, _little(body, 8, 2) & 0x3FFF
    packed = _little(body, 1, 4)
    return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)


def _number(data: bytes, at: int, count: int) -> int:
    if at + count > len(data):
        raise BrokenOutline("the picture is cut short")
    return int.from_bytes(data[at : at + count], "big")


def _little(data: bytes, at: int, count: int) -> int:
    if at + count > len(data):
        raise BrokenOutline("the picture is cut short")
    return int.from_bytes(data[at : at + count], "little")

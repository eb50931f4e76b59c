"""What `picture_worker` and the process behind it say to each other: four bytes of length, then MessagePack."""

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct(">I")
REPLY_BYTES_MAX: Final = 4 * 1024 * 1024


class LookAt(msgspec.Struct, frozen=True, tag=True):
    data: bytes
    content_type: str
    pixels_max: int
    cpu_seconds_max: int


class Thumbnail(msgspec.Struct, frozen=True, tag=True):
    data: bytes
    edge_pixels_max: int
    pixels_max: int
    cpu_seconds_max: int


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The first word: the process is there, under its limits. What ends it from now on is a picture."""


class Looked(msgspec.Struct, frozen=True, tag=True):
    width: int
    height: int
    format: str


class Drawn(msgspec.Struct, frozen=True, tag=True):
    data: bytes


class Refused(msgspec.Struct, frozen=True, tag=True):
    kind: str
    reason: str


class OutOfMemory(msgspec.Struct, frozen=True, tag=True):
    """It may be the picture, or what earlier pictures left behind: a fresh process tells."""


Task = LookAt | Thumbnail
Reply = Ready | Looked | Drawn | Refused | OutOfMemory


def framed(message: Task | Reply) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body

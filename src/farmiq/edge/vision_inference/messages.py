"""What `engine` and the process behind it say to each other: four bytes of length, then MessagePack."""

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct(">I")
REPLY_BYTES_MAX: Final = 64 * 1024


class Load(msgspec.Struct, frozen=True, tag=True):
    """The first word: everything that the process needs to know of its model."""

    content: bytes
    input_name: str
    width: int
    height: int
    outputs: list[str]
    threads: int


class LookAt(msgspec.Struct, frozen=True, tag=True):
    data: bytes
    pixels_max: int
    cpu_seconds_max: int


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """The model is there. What ends the process from now on is a picture."""


class NotLoaded(msgspec.Struct, frozen=True, tag=True):
    reason: str


class Saw(msgspec.Struct, frozen=True, tag=True):
    """What the model said, by the names of its outputs."""

    answers: dict[str, float | str]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The bytes are no picture that we look at: `kind` is the name of one of the refusals in `farmiq.kit.pictures`."""

    kind: str
    reason: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The model itself gave up on the picture."""

    reason: str


class OutOfMemory(msgspec.Struct, frozen=True, tag=True):
    """It may be the picture, or what earlier pictures left behind: a fresh process tells."""


Task = Load | LookAt
Reply = Loaded | NotLoaded | Saw | Refused | Failed | OutOfMemory


def framed(message: Task | Reply) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body

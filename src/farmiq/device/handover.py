"""What `node-agent` and `node-forwarder` say to each other over a Unix socket.

    agent                                          forwarder
    Hello(boot, channels)              ───────▶    takes the channel table over
                                       ◀───────    Welcome(last)       the last sample it holds of this boot, if any
    Samples(number, rows)              ───────▶    writes and syncs
                                       ◀───────    Stored(number)      only now may the agent forget them
    NotCaptured(number, loss, count)   ───────▶    declares them lost and syncs
                                       ◀───────    Stored(number)
    Condition(number, faulty sensors)  ───────▶    shows it in the node's status
                                       ◀───────    Stored(number)      nothing to keep: it is said again on every connection

Each message is its length in four bytes, then msgpack. A row is known by its boot, its monotonic time and its channel, and
rows come in that order. So a forwarder that was killed between its sync and `Stored` recognises what the agent sends
again, from nothing but its own last frame, and stores it once; a loss is recognised by its id. `Refused` ends the
conversation.
"""

import asyncio
import struct
from typing import Annotated, Final, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from farmiq.kit.errors import Rejected

MESSAGE_BYTES_MAX: Final = 1 << 20
ROWS_MAX: Final = 10_000
CHANNELS_MAX: Final = 1024

_LENGTH: Final = struct.Struct(">I")

Name = Annotated[str, Meta(min_length=1, max_length=64)]

Row = tuple[
    int,  # wall time, microseconds since 1970
    Annotated[int, Meta(ge=0, lt=1 << 48)],  # monotonic time, microseconds since boot
    Annotated[int, Meta(ge=0, lt=CHANNELS_MAX)],  # index into the channel table
    Annotated[int, Meta(ge=0, le=255)],  # quality of the wall time
    float,
]


class BadHandover(Rejected):
    """The other side of the socket does not speak this protocol, or sent more than is allowed. The connection is closed."""

    code = "bad_handover"


class ChannelName(Struct, frozen=True, array_like=True):
    metric: Name
    unit: Annotated[str, Meta(max_length=32)]
    sensor: Annotated[str, Meta(max_length=64)]


class Position(Struct, frozen=True, array_like=True, order=True):
    """Where a sample stands in the order of its boot."""

    monotonic_us: int
    channel: int


class Hello(Struct, frozen=True, tag="hello"):
    boot_id: UUID
    channels: Annotated[list[ChannelName], Meta(min_length=1, max_length=CHANNELS_MAX)]


class Samples(Struct, frozen=True, tag="samples"):
    """`number` counts the agent's messages; it only pairs the answer with the question."""

    number: int
    rows: Annotated[list[Row], Meta(min_length=1, max_length=ROWS_MAX)]


class NotCaptured(Struct, frozen=True, tag="not_captured"):
    """What the agent measured and had to give up, because nobody stored it in time. Kept under `loss_id`, once."""

    number: int
    loss_id: UUID
    count: Annotated[int, Meta(ge=1, lt=1 << 40)]
    first_wall_us: int
    last_wall_us: int


class Condition(Struct, frozen=True, tag="condition"):
    """How the agent is, for the node's status: which sensors fail now, and how many samples it has had to give up."""

    number: int
    faulty_sensors: Annotated[list[Name], Meta(max_length=CHANNELS_MAX)] = []
    not_captured: Annotated[int, Meta(ge=0)] = 0


class Welcome(Struct, frozen=True, tag="welcome"):
    last: Position | None


class Stored(Struct, frozen=True, tag="stored"):
    number: int


class Refused(Struct, frozen=True, tag="refused"):
    """`is_final`: these samples will never be taken. Otherwise the same ones may be offered again later."""

    reason: str
    is_final: bool = False


FromAgent = Hello | Samples | NotCaptured | Condition
FromForwarder = Welcome | Stored | Refused
M = TypeVar("M")

_AGENT: Final = msgspec.msgpack.Decoder[FromAgent](FromAgent)
_FORWARDER: Final = msgspec.msgpack.Decoder[FromForwarder](FromForwarder)


def pack(message: FromAgent | FromForwarder) -> bytes:
    body = msgspec.msgpack.encode(message)
    if len(body) > MESSAGE_BYTES_MAX:
        raise BadHandover(f"a message of {len(body)} bytes, at most {MESSAGE_BYTES_MAX} are allowed")
    return _LENGTH.pack(len(body)) + body


async def read_from_agent(reader: asyncio.StreamReader) -> FromAgent | None:
    """The next message, or None when the agent has closed the connection between two messages."""
    return await _read(reader, _AGENT)


async def read_from_forwarder(reader: asyncio.StreamReader) -> FromForwarder | None:
    return await _read(reader, _FORWARDER)


async def _read(reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[M]) -> M | None:
    try:
        head = await reader.readexactly(_LENGTH.size)
        (length,) = _LENGTH.unpack(head)
        if length > MESSAGE_BYTES_MAX:
            raise BadHandover(f"a message of {length} bytes, at most {MESSAGE_BYTES_MAX} are allowed")
        return decoder.decode(await reader.readexactly(length))
    except asyncio.IncompleteReadError:
        return None  # a message cut short was not acknowledged, and comes again
    except msgspec.DecodeError as error:
        raise BadHandover(f"not a message of this protocol: {error}") from error

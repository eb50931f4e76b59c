"""The socket that the agent hands samples over on: whoever may connect, and when it is told "stored"."""

import asyncio
import contextlib
import math
import os
import socket
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from farmiq.contracts.ids import InvalidId, check_id, check_metric
from farmiq.contracts.telemetry import T_MAX_US, T_MIN_US
from farmiq.device import handover
from farmiq.device.handover import BadHandover, Condition, Hello, NotCaptured, Refused, Samples, Stored, Welcome
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.kit.errors import Transient
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.spool import SpoolError

_PEER = struct.Struct("3i")  # struct ucred: process, user, group

log = get_logger(__name__)


class SeatTaken(Transient):
    """Another agent hands over samples here already. Only one may; it is told again when the other has gone."""

    code = "seat_taken"


async def accept_samples(life: Lifetime, path: Path, recorder: Recorder) -> None:
    """Until the service is asked to stop. The agent keeps whatever it was not told of."""
    conversations: set[asyncio.Task[None]] = set()
    seat = Seat()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in one
        conversations.add(task)
        try:
            await life.until_stopped(_converse(reader, writer, recorder, seat))
        finally:
            conversations.discard(task)

    server = await asyncio.start_unix_server(converse, sock=_listen(path), limit=2 * handover.MESSAGE_BYTES_MAX)
    async with server:
        await life.stopping.wait()
    if conversations:
        await asyncio.wait(conversations)
    await asyncio.to_thread(path.unlink, missing_ok=True)


class Seat:
    """One agent at a time. Samples are told apart by their place in one agent's order, and a segment holds one agent's
    channels: with two of them talking, one's samples would pass for the other's, or for sent before."""

    def __init__(self) -> None:
        self._is_taken = False

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        if self._is_taken:
            raise SeatTaken("another agent is connected")
        self._is_taken = True
        try:
            yield
        finally:
            self._is_taken = False


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recorder: Recorder, seat: Seat) -> None:
    try:
        _check_peer(writer.get_extra_info("socket"))
        await _take_samples(reader, writer, recorder, seat)
    except (BadHandover, SeatTaken, InvalidId, SpoolError) as error:
        # The agent keeps what was not stored, and tries again; a person finds the reason on both sides.
        log.error("handover_refused", reason=str(error), error=type(error).__name__)  # noqa: TRY400 - an answer, not a crash
        with contextlib.suppress(OSError):
            await _say(writer, Refused(str(error)[:300], is_final=isinstance(error, BadHandover)))
    except OSError as error:
        log.warning("agent_lost", reason=str(error))
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _take_samples(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, recorder: Recorder, seat: Seat
) -> None:
    hello = await handover.read_from_agent(reader)
    if hello is None:
        return
    if not isinstance(hello, Hello):
        raise BadHandover("samples came before the greeting")
    _check_channels(hello)
    with seat.taken():
        await _say(writer, Welcome(await recorder.begin(hello)))
        log.info("agent_connected", boot_id=str(hello.boot_id), channels=len(hello.channels))
        while (message := await handover.read_from_agent(reader)) is not None:
            await _say(writer, Stored(await _take(hello, message, recorder)))


async def _take(hello: Hello, message: handover.FromAgent, recorder: Recorder) -> int:
    """Answers the message's number once what it says may be forgotten by the agent."""
    match message:
        case Hello():
            raise BadHandover("a second greeting")
        case Samples():
            _check_rows(hello, message)
            await recorder.record(hello, message.rows)
        case NotCaptured():
            _check_times(message.first_wall_us, message.last_wall_us)
            await recorder.give_up(message)
        case Condition():
            for sensor in message.faulty_sensors:
                check_id("sensor", sensor)
            recorder.condition = message
    return message.number


async def _say(writer: asyncio.StreamWriter, message: handover.FromForwarder) -> None:
    writer.write(handover.pack(message))
    await writer.drain()


def _listen(path: Path) -> socket.socket:
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # of a predecessor that was killed; the spool's lock says that none is alive
    listener = socket.socket(socket.AF_UNIX)
    previous = os.umask(0o117)
    try:
        listener.bind(str(path))
    finally:
        os.umask(previous)
    return listener


def _check_peer(connection: socket.socket) -> None:
    """Our own user, root, or a member of our group: the folder's rights say the same, and they can be got wrong."""
    _, user, group = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user not in (0, os.geteuid()) and group != os.getegid():
        raise BadHandover(f"user {user} may not hand over samples here")


def _check_channels(hello: Hello) -> None:
    for channel in hello.channels:
        check_metric(channel.metric)
        if channel.sensor:
            check_id("sensor", channel.sensor)
        if not channel.unit.isprintable():
            raise BadHandover(f"unit {channel.unit!r} holds characters that cannot be sent on")


def _check_rows(hello: Hello, message: Samples) -> None:
    """What could never be sent on must not be stored: it would stand in the way of everything behind it."""
    if any(row[2] >= len(hello.channels) for row in message.rows):
        raise BadHandover("a sample of a channel that was not announced")
    _check_times(*(row[0] for row in message.rows))
    if not all(math.isfinite(row[4]) for row in message.rows):
        raise BadHandover("a value that is not a number")
    places = [(row[1], row[2]) for row in message.rows]
    if any(later <= earlier for earlier, later in pairwise(places)):
        raise BadHandover("samples that are not in the order of their time and channel")


def _check_times(*wall_us: int) -> None:
    if not all(T_MIN_US <= one <= T_MAX_US for one in wall_us):
        raise BadHandover("a time that no calendar holds")

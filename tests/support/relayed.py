"""A relay in this process between a test and a server of the test's own, and the relay as a process."""

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from farmiq.kit.clock import Clock
from farmiq.stack.ports import free_port
from farmiq.stack.processes import MARKER
from farmiq.stack.relay.client import RelayAway, RelayClient
from farmiq.stack.relay.faults import HEALTHY, RouteFaults
from farmiq.stack.relay.program import Relay
from farmiq.stack.relay.route import Link, Route, RouteSpec
from support.waiting import wait_for


class Ends(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Far:
    """The server behind the relay: hands each connection to the test."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[Ends] = asyncio.Queue()
        self._open: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def next(self) -> Ends:
        return await asyncio.wait_for(self.taken.get(), 10)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(writer)
        await self.taken.put(Ends(reader, writer))


class Relayed:
    def __init__(self, far: Far, route: Route, port: int) -> None:
        self.far = far
        self.route = route
        self.port = port
        self._near: list[asyncio.StreamWriter] = []

    async def connect(self) -> Ends:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._near.append(writer)
        return Ends(reader, writer)

    async def pair(self) -> tuple[Ends, Ends]:
        """Both ends of one connection."""
        near = await self.connect()
        return near, await self.far.next()

    async def close(self) -> None:
        for writer in self._near:
            writer.transport.abort()


@asynccontextmanager
async def relayed(faults: RouteFaults = HEALTHY, seed: int = 1) -> AsyncIterator[Relayed]:
    far, port = Far(), free_port()
    await far.start()
    route = Route(RouteSpec("wan", (Link(port, far.port),)), faults, Random(seed), Clock())
    await route.open()
    world = Relayed(far, route, port)
    try:
        yield world
    finally:
        await world.close()
        await route.close()
        await far.stop()


async def is_reset(reader: asyncio.StreamReader) -> bool:
    """Waits for the end of the connection, and says how it came."""
    try:
        while await asyncio.wait_for(reader.read(65536), 10):
            pass
    except ConnectionResetError:
        return True
    return False


async def never(work: Callable[[], Awaitable[object]], seconds: float = 0.3) -> bool:
    """Nothing comes for a while. It can't be told from something very late, so it only ever follows a sign of life."""
    try:
        await asyncio.wait_for(work(), seconds)
    except TimeoutError:
        return True
    return False


class RelayProcess:
    """The relay as the supervisor runs it."""

    def __init__(self, folder: Path, run_folder: Path, routes: tuple[RouteSpec, ...]) -> None:
        self.program = Relay(folder / "relay", run_folder / f"{os.getpid()}-{folder.name[-20:]}.sock", routes)
        self.client = RelayClient(self.program.socket)
        self._run_folder = run_folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.program.prepare()
        self._process = subprocess.Popen(
            self.program.command(), env=self.program.environment() | {MARKER: str(self._run_folder)}
        )
        wait_for(self._answers, what="the relay's first answer")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout=10)

    def _answers(self) -> bool:
        with suppress(RelayAway):
            self.client.look()
            return True
        return False


@contextmanager
def relay_process(folder: Path, run_folder: Path, routes: tuple[RouteSpec, ...]) -> Iterator[RelayProcess]:
    process = RelayProcess(folder, run_folder, routes)
    process.start()
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def echo_server() -> Iterator[int]:
    """Answers one connection at a time with what it was sent, in a thread of its own. Its port."""
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):  # the listener is closed at the end of the block
            while True:
                talk, _ = listener.accept()
                with talk, suppress(ConnectionError):
                    while data := talk.recv(65536):
                        talk.sendall(data)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=5)

"""One route: its ports, where they lead, and the connections that are open."""

import asyncio
import socket
from collections.abc import Callable
from random import Random

from msgspec import Struct

from farmiq.kit.clock import Clock
from farmiq.kit.logging import get_logger
from farmiq.stack.relay.connection import Connection, End
from farmiq.stack.relay.faults import HEALTHY, RouteFaults
from farmiq.stack.relay.pipe import Pipe, Tally
from farmiq.stack.relay.protocol import RouteState
from farmiq.stack.relay.shaping import Shaper

LOOPBACK = "127.0.0.1"
CONNECTIONS_MAX = 2000
_BACKLOG = 256

log = get_logger(__name__)


class Link(Struct, frozen=True):
    """One port of ours, and where it leads."""

    port: int
    target_port: int
    target_host: str = LOOPBACK


class RouteSpec(Struct, frozen=True):
    """What is cut and healed together."""

    name: str
    links: tuple[Link, ...]


class Route:
    def __init__(self, spec: RouteSpec, faults: RouteFaults, random: Random, clock: Clock) -> None:
        self.name = spec.name
        self.faults = faults
        self._spec = spec
        self._random = random
        self._clock = clock
        self._doors = [Door(link, self._admit) for link in spec.links]
        self._connections: set[Connection] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._upstream, self._downstream = Tally(), Tally()
        self._accepted = 0
        self._turned_away = 0

    async def open(self) -> None:
        for door in self._doors:
            door.hold()
        await self._follow_orders()

    async def close(self) -> None:
        for door in self._doors:
            await door.shut()
            door.release()
        self._reset_all()

    async def apply(self, faults: RouteFaults) -> None:
        self.faults = faults if not faults.is_healthy else HEALTHY
        await self._follow_orders()
        for connection in list(self._connections):
            connection.change(self.faults)
        log.info("route_changed", route=self.name, faults=self.faults.names)

    def state(self) -> RouteState:
        return RouteState(
            name=self.name,
            ports=[link.port for link in self._spec.links],
            faults=self.faults,
            connections=len(self._connections),
            accepted=self._accepted,
            turned_away=self._turned_away,
            upstream_bytes=self._upstream.bytes,
            downstream_bytes=self._downstream.bytes,
        )

    async def _follow_orders(self) -> None:
        for door in self._doors:
            if self.faults.down:
                await door.shut()
            else:
                await door.unlock()
        if self.faults.down:
            self._reset_all()

    def _reset_all(self) -> None:
        for connection in list(self._connections):
            connection.reset()

    def _admit(self, link: Link) -> End:
        loop = asyncio.get_running_loop()
        now = loop.time()
        connection = Connection(
            Pipe(Shaper(self.faults.upstream, self._random, now), self._upstream, loop.time),
            Pipe(Shaper(self.faults.downstream, self._random, now), self._downstream, loop.time),
            self._connections.discard,
        )
        self._connections.add(connection)
        opening = loop.create_task(self._open(connection, link))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)
        return connection.client

    async def _open(self, connection: Connection, link: Link) -> None:
        if self.faults.down or len(self._connections) > CONNECTIONS_MAX:
            self._turned_away += 1
            connection.reset()
            return
        self._accepted += 1
        await connection.open(link.target_host, link.target_port)


class Door:
    """One listening port. Shut, it refuses as if nobody were there, and stays ours: nobody else can take it meanwhile."""

    def __init__(self, link: Link, admit: Callable[[Link], End]) -> None:
        self._link = link
        self._admit = admit
        self._holder: socket.socket | None = None
        self._server: asyncio.Server | None = None

    def hold(self) -> None:
        self._holder = self._bound()

    def release(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None

    async def unlock(self) -> None:
        if self._server is not None:
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self._admit(self._link), sock=self._bound(), backlog=_BACKLOG)

    async def shut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _bound(self) -> socket.socket:
        # Two sockets on one port, of which one never listens: the kernel refuses connections while the other is closed.
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            bound.bind((LOOPBACK, self._link.port))
        except OSError:
            bound.close()
            raise
        bound.setblocking(False)
        return bound

"""Takes orders on the Unix socket, one after the other, and remembers each before it is carried out."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from farmiq.kit.clock import Clock
from farmiq.kit.errors import Rejected
from farmiq.kit.logging import get_logger
from farmiq.stack.relay.faults import HEALTHY, RouteFaults
from farmiq.stack.relay.memory import Memory
from farmiq.stack.relay.protocol import LINE_BYTES_MAX, Answer, Change, Heal, Look, Order, Problem, as_line, read_order
from farmiq.stack.relay.route import Route

log = get_logger(__name__)


class UnknownRoute(Rejected):
    """The relay has no route of that name."""

    code = "unknown_route"


class Control:
    def __init__(self, routes: Sequence[Route], memory: Memory, clock: Clock) -> None:
        self._routes = {route.name: route for route in routes}
        self._memory = memory
        self._clock = clock
        self._turn = asyncio.Lock()
        self._talks: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self, path: Path) -> None:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        # Narrow from its first moment: the mask holds while the socket is made, and nothing else of this process runs then.
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._talk, path, limit=LINE_BYTES_MAX)
        finally:
            os.umask(before)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._talks):
            writer.transport.abort()

    async def carry_out(self, order: Order) -> Answer:
        async with self._turn:
            match order:
                case Look():
                    pass
                case Change(route, faults):
                    await self._tell({self._known(route): faults})
                case Heal(route):
                    names = [self._known(route)] if route is not None else list(self._routes)
                    await self._tell(dict.fromkeys(names, HEALTHY))
            return Answer([route.state() for route in self._routes.values()])

    async def _tell(self, news: dict[str, RouteFaults]) -> None:
        now = self._clock.now()
        dated = {name: msgspec.structs.replace(told, since=now) for name, told in news.items()}
        known = {name: route.faults for name, route in self._routes.items()}
        await asyncio.to_thread(self._memory.save, known | dated)
        for name, faults in dated.items():
            await self._routes[name].apply(faults)

    def _known(self, name: str) -> str:
        if name not in self._routes:
            raise UnknownRoute(f"there is no route {name}; there are {', '.join(self._routes)}")
        return name

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.add(writer)
        try:
            with contextlib.suppress(ConnectionError):  # whoever asked has gone; what was ordered holds
                while line := await reader.readline():
                    writer.write(as_line(await self._answer(line)))
                    await writer.drain()
        except ValueError:
            log.warning("order_refused", reason="longer than a line may be")
        finally:
            self._talks.discard(writer)
            writer.close()

    async def _answer(self, line: bytes) -> Answer:
        try:
            return await self.carry_out(read_order(line))
        except msgspec.MsgspecError as error:
            return Answer(error=Problem("malformed_order", str(error)))
        except UnknownRoute as error:
            return Answer(error=Problem(error.code, str(error)))
        except OSError as error:
            log.error("order_not_carried_out", reason=str(error))  # noqa: TRY400 - the message is the whole story
            return Answer(error=Problem("failed", str(error)))

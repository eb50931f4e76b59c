"""The way from the edge to the cloud's entrance: requests and answers get lost, come late, or twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from farmiq.edge.sync_forwarder.cloud import Cloud
from farmiq.kit.clock import Clock
from farmiq.kit.http_client import Answer, NeighbourAway
from simulation.chance import Chance
from simulation.process import Process
from simulation.virtual_loop import VirtualLoop

Handle = Callable[[bytes], Coroutine[Any, Any, Answer]]


class Uplink:
    def __init__(self, loop: VirtualLoop, chance: Chance) -> None:
        self.loop = loop
        self.chance = chance
        self.is_up = True
        self.trouble = 0.0
        self.slowness = 1.0
        self._doors: list[tuple[Process, Handle]] = []

    def opened(self, process: Process, handle: Handle) -> None:
        door = (process, handle)
        self._doors.append(door)
        process.at_end.append(lambda: self._doors.remove(door))

    def seconds(self) -> float:
        return self.chance.seconds(0.005, 0.1) * self.slowness

    async def request(self, body: bytes) -> Answer:
        await self.loop.step()
        await self.loop.pause(self.seconds())
        if not self.is_up or self.chance.happens(self.trouble):
            await self.loop.create_future()  # the packets go nowhere, and nobody says so
        if not self._doors:
            raise NeighbourAway("POST: connection refused")
        process, handle = self.chance.choice(self._doors)
        answered: asyncio.Future[Answer] = self.loop.create_future()
        reset = self._reset_of(answered)
        process.at_end.append(reset)
        self._serve(process, handle(body), answered)
        if self.chance.happens(self.trouble):
            # A proxy on the way tries again by itself.
            self._serve(process, handle(body), self.loop.create_future())
        return await answered

    def _serve(
        self, process: Process, handling: Coroutine[Any, Any, Answer], answered: "asyncio.Future[Answer]"
    ) -> None:
        async def serve() -> None:
            answer = await handling
            await self.loop.pause(self.seconds())
            if self.is_up and not self.chance.happens(self.trouble) and not answered.done():
                answered.set_result(answer)

        context = process.context()
        context.run(lambda: asyncio.create_task(serve(), context=context))

    def _reset_of(self, answered: "asyncio.Future[Answer]") -> Callable[[], None]:
        def reset() -> None:
            if not answered.done():
                answered.set_exception(NeighbourAway("POST: connection reset"))

        return reset


class SimulatedCloud(Cloud):
    """The edge's own view of the cloud, with the uplink above where its HTTP client would be."""

    def __init__(self, uplink: Uplink, clock: Clock, seconds_max: float) -> None:
        super().__init__(None, "https://cloud", "token", clock, "none")  # type: ignore[arg-type]  # no session is used
        self._uplink = uplink
        self._seconds_max = seconds_max

    async def _send(self, body: bytes, _compression: object) -> Answer:
        try:
            async with asyncio.timeout(self._seconds_max):
                return await self._uplink.request(body)
        except TimeoutError as error:
            raise NeighbourAway("POST: no answer in time") from error

"""A node whose broker is cut off for days of its own time: who measures, what the edge holds, and what a person would see."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import aiohttp

from farmiq.device.handover import ChannelName, Hello, Row, Stored, Welcome
from farmiq.edge.ingress_gateway import devices
from farmiq.kit.postgres import Pool
from integration.device.node_world import Agent, Node, connected
from support.service_process import ServiceProcess

CHANNELS = [ChannelName("temperature", "C", f"t{number}") for number in range(10)]
HELLO = Hello(UUID(int=48), CHANNELS)
ROWS_A_MESSAGE = 5000
SECOND_US = 1_000_000
LIVE_SECONDS = 0.2


class Sensors:
    """Ten channels, read every so many seconds. Sample number n, counted from one, has the value n, wherever it ends up."""

    def __init__(self, outage_seconds: int, every_seconds: int) -> None:
        self.began_at_us = (int(time.time()) - outage_seconds) * SECOND_US
        self.readings = outage_seconds // every_seconds
        self.taken = 0
        self._every_us = every_seconds * SECOND_US

    @property
    def readings_left(self) -> int:
        """Of the outage."""
        return self.readings - self.taken // 10

    def history(self, readings: int) -> list[Row]:
        """The next ones of the past, as fast as they can be made."""
        return [
            row for _ in range(readings) for row in self._read(self.began_at_us + self.taken // 10 * self._every_us)
        ]

    def now(self) -> list[Row]:
        return self._read(time.time_ns() // 1000)

    def _read(self, wall_us: int) -> list[Row]:
        monotonic_us = (self.taken // 10 + 1) * self._every_us
        rows = [(wall_us, monotonic_us, channel, 2, float(self.taken + 1 + channel)) for channel in range(10)]
        self.taken += 10
        return rows


async def hand_over_history(node: Node, sensors: Sensors, readings: int) -> None:
    async with connected(node, HELLO) as agent:
        for start in range(0, readings, ROWS_A_MESSAGE // 10):
            rows = sensors.history(min(ROWS_A_MESSAGE // 10, readings - start))
            assert isinstance(await agent.hand_over(rows), Stored)


async def hand_over_through_a_kill(node: Node, sensors: Sensors, forwarder: ServiceProcess) -> None:
    """The forwarder is killed with samples in its hands. The agent asks what it has, and sends the rest again."""
    rows = sensors.history(ROWS_A_MESSAGE // 10)
    async with connected(node, HELLO) as agent:
        answer = asyncio.create_task(agent.hand_over(rows))
        await asyncio.sleep(0)
        await asyncio.to_thread(forwarder.kill)
        await asyncio.gather(answer, return_exceptions=True)
    await asyncio.to_thread(forwarder.start)
    async with connected(node) as agent:
        welcome = await agent.say(HELLO)
        assert isinstance(welcome, Welcome)
        held = (welcome.last.monotonic_us, welcome.last.channel) if welcome.last else (0, -1)
        missing = [row for row in rows if (row[1], row[2]) > held]
        if missing:
            assert isinstance(await agent.hand_over(missing), Stored)


async def comes_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True


@dataclass
class Seen:
    """What somebody who looks at the edge all the time would have seen."""

    live_overtook: int = 0  # looks at which live samples were stored while older ones were still missing
    online: list[bool] = field(default_factory=list)
    last_rx: list[str] = field(default_factory=list)
    last_sample: list[str] = field(default_factory=list)

    def add(self, device: dict[str, Any], history: int) -> None:
        self.online.append(device["online"])
        if device["last_rx_at"] is not None:  # it was heard
            self.last_rx.append(device["last_rx_at"])
        self.last_sample.append(device["last_sample_ts"] or "")
        marks = device["marks"]
        self.live_overtook += bool(marks and marks["edge_highest_seq"] > history and marks["edge_missing"])


@asynccontextmanager
async def measuring(agent: Agent, sensors: Sensors) -> AsyncIterator[None]:
    """Live samples several times a second, until the end of the block."""
    is_over = asyncio.Event()

    async def measure() -> None:
        while not await comes_within(is_over, LIVE_SECONDS):
            assert isinstance(await agent.hand_over(sensors.now()), Stored)

    task = asyncio.create_task(measure())
    try:
        yield
    finally:
        is_over.set()
        await task


@asynccontextmanager
async def watched(telemetry: ServiceProcess, token: str, history: int) -> AsyncIterator[Seen]:
    """Asks the edge about the device all the time, until the end of the block."""
    seen = Seen()
    is_over = asyncio.Event()
    url = f"{telemetry.url}/api/v1/devices/node-1?tenant_id=demo"

    async def watch(session: aiohttp.ClientSession) -> None:
        while not await comes_within(is_over, 0.05):
            async with session.get(url) as answer:
                if answer.status == 200:
                    seen.add(await answer.json(), history)

    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {token}"}) as session:
        task = asyncio.create_task(watch(session))
        try:
            yield seen
        finally:
            is_over.set()
            await task


async def provision(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )

"""A real node-forwarder, and the agent's side of its socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psutil

from farmiq.device import handover
from farmiq.device.handover import ChannelName, Hello, Row, Samples, Stored, Welcome
from processes import START_SECONDS_MAX, NotStarted, end_of, service

TENANT, FARM, BARN = "bench", "farm-1", "barn-1"
CHANNELS = 10
ANSWER_SECONDS_MAX = 30.0


class Node:
    def __init__(self, folder: Path, device_id: str, mqtt_url: str) -> None:
        self.device_id = device_id
        self.process: psutil.Process
        self._folder = folder
        self._mqtt_url = mqtt_url
        self._socket = folder / "forwarder.sock"
        self._number = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Node"]:
        """Greeted, and ready to take samples."""
        self._folder.mkdir()
        async with service("node-forwarder", self._environ(), self._folder / "forwarder.log") as self.process:
            self._reader, self._writer = await self._connected()
            channels = [ChannelName("temperature", "C", f"t{number}") for number in range(CHANNELS)]
            welcome = await self._ask(Hello(uuid4(), channels))
            if not isinstance(welcome, Welcome):
                raise self.failure(f"it answered the greeting with {welcome}")
            yield self
            self._writer.close()

    async def hand_over(self, rows: list[Row]) -> None:
        """As the agent does: the next group when the last one is on disk."""
        self._number += 1
        answer = await self._ask(Samples(self._number, rows))
        if not isinstance(answer, Stored) or answer.number != self._number:
            raise self.failure(f"it answered samples with {answer}")

    def failure(self, what: str) -> NotStarted:
        return NotStarted(f"{what}:\n{end_of(self._folder / 'forwarder.log')}")

    async def _ask(self, message: handover.FromAgent) -> handover.FromForwarder | None:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            self._writer.write(handover.pack(message))
            await self._writer.drain()
            return await handover.read_from_forwarder(self._reader)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with asyncio.timeout(START_SECONDS_MAX):
            while True:
                try:
                    return await asyncio.open_unix_connection(str(self._socket))
                except OSError:
                    await asyncio.sleep(0.05)

    def _environ(self) -> dict[str, str]:
        return {
            "TENANT_ID": TENANT,
            "FARM_ID": FARM,
            "BARN_ID": BARN,
            "DEVICE_ID": self.device_id,
            "MQTT_URL": self._mqtt_url,
            "NODE_FORWARDER_SOCKET": str(self._socket),
            "NODE_FORWARDER_SPOOL_DIR": str(self._folder / "spool"),
            "NODE_FORWARDER_KEEP_FREE_BYTES": "0",
            "REPLAY_BYTES_PER_SEC": "1000000000",
        }

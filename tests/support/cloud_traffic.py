"""Edges that send to the cloud's entrance without a break and repeat what was not taken; the services behind it; the ledger.

What an edge was told is taken (accepted, or known already) is what the cloud owes it: each of them stored once, no more, no less.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import aiohttp
import msgspec

from farmiq.cloud.topology import WORK_QUEUES
from farmiq.contracts import event_types
from farmiq.contracts.telemetry import pack_of
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import depth
from farmiq.kit.postgres import Pool
from support.entrance import TOKEN, event, let_edge_in, until_ready
from support.service_process import Death, ServiceProcess
from support.telemetry import batch_of
from support.waiting import eventually

INGESTION: Final = "cloud-ingestion"
TELEMETRY: Final = "cloud-telemetry-service"
WORK_QUEUE: Final = WORK_QUEUES[TELEMETRY]
PACK_SAMPLES: Final = 20
READINGS: Final = 8


class Edge:
    """Sends batches of readings and a pack, one after the other, each until it is taken."""

    def __init__(self, url: str, name: str) -> None:
        self.stream_id = uuid4()
        self.readings: list[str] = []
        self.samples = 0
        self.answers: Counter[str] = Counter()
        self._url = url
        self._device_id = name
        self._rng = random.Random(name)

    @property
    def taken(self) -> int:
        """Rows that the cloud owes this edge."""
        return len(self.readings) + self.samples

    async def send_until(self, is_over: asyncio.Event) -> None:
        async with aiohttp.ClientSession(self._url, headers={"authorization": f"Bearer {TOKEN}"}) as session:
            while not is_over.is_set():
                readings = [event(device_id=self._device_id) for _ in range(self._rng.randint(1, READINGS))]
                first = self.samples + 1
                await self._deliver(session, [*readings, self._pack(first)])
                self.readings += [one["event_id"] for one in readings]
                self.samples += PACK_SAMPLES

    async def _deliver(self, session: aiohttp.ClientSession, events: Sequence[Mapping[str, Any]]) -> None:
        left = list(events)
        while left:
            refused = await self._post(session, left)
            left = [one for one in left if one["event_id"] in refused]
            if left:
                await asyncio.sleep(0.05)

    async def _post(self, session: aiohttp.ClientSession, events: Sequence[Mapping[str, Any]]) -> set[str]:
        """The ids of those that were not taken."""
        everything = {str(one["event_id"]) for one in events}
        try:
            async with session.post("/api/v1/edge/batch", data=msgspec.json.encode(events)) as answer:
                told = await answer.json()
        except (aiohttp.ClientError, TimeoutError):
            self.answers["away"] += 1
            return everything
        if answer.status != 200:
            assert answer.status in (429, 503), told
            assert answer.headers["retry-after"]
            self.answers[told["error"]["code"]] += 1
            return everything
        self.answers.update(one.get("code", one["status"]) for one in told["results"])
        return {one["event_id"] for one in told["results"] if one["status"] == "rejected"}

    def _pack(self, first: int) -> dict[str, Any]:
        last = first + PACK_SAMPLES - 1
        pack = pack_of(batch_of(self.stream_id, first, last), first, last)
        return event(
            event_type=event_types.TELEMETRY_BATCH_INGESTED,
            device_id=self._device_id,
            payload=msgspec.to_builtins(pack),
        )


class Cloud:
    """`cloud-ingestion` and `cloud-telemetry-service` as processes, and what is in their database."""

    def __init__(self, pool: Pool, database_url: str, amqp_url: str, home: Path, folder: Path) -> None:
        self.pool = pool
        self.amqp_url = amqp_url
        self._environ = {"DATABASE_URL": database_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": "for-this-test"}
        self._home = home
        self._folder = folder
        self._started: list[ServiceProcess] = []

    async def ingestion(self) -> ServiceProcess:
        await let_edge_in(self.pool)
        service = await self._start(INGESTION)
        await until_ready(service.url)
        return service

    async def telemetry_service(self, dies: Death | None = None, **settings: str) -> ServiceProcess:
        return await self._start(TELEMETRY, dies, **settings)

    async def stop(self, service: ServiceProcess) -> None:
        assert await asyncio.to_thread(service.stop) == 0

    def end(self) -> None:
        for service in self._started:
            service.kill()

    async def stored(self) -> int:
        return int(await self.pool.fetchval("SELECT count(*) FROM telemetry_raw"))

    async def until_stored(self, edges: Sequence[Edge], seconds: float = 90.0) -> None:
        owed = sum(edge.taken for edge in edges)

        async def is_stored() -> bool:
            return await self.stored() >= owed

        await eventually(is_stored, seconds, f"{owed} rows in the cloud")

    async def depths(self) -> dict[str, int | None]:
        """Without what a consumer has in hand."""
        async with connected(self.amqp_url, "test") as connection:
            return {name: await depth(connection, name) for name in WORK_QUEUE.queue_names()}

    async def check(self, edges: Sequence[Edge]) -> None:
        """Every row that was promised is there once, and counted once in the aggregates."""
        rows = await self.pool.fetch("SELECT id FROM telemetry_raw WHERE stream_id IS NULL")
        assert sorted(str(row["id"]) for row in rows) == sorted(one for edge in edges for one in edge.readings)
        for edge in edges:
            seqs = await self.pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1", edge.stream_id)
            assert sorted(row["seq"] for row in seqs) == list(range(1, edge.samples + 1))
        counted = await self.pool.fetchval("SELECT sum(count) FROM telemetry_agg WHERE \"window\" = '1d'")
        assert counted == sum(edge.taken for edge in edges)

    async def _start(self, name: str, dies: Death | None = None, **settings: str) -> ServiceProcess:
        log = self._folder / f"{name}-{len(self._started)}.log"
        service = ServiceProcess(name, self._environ | settings, self._home, log, dies)
        self._started.append(service)
        return await asyncio.to_thread(service.start)


@asynccontextmanager
async def cloud(pool: Pool, database_url: str, amqp_url: str, home: Path, folder: Path) -> AsyncIterator[Cloud]:
    """Whatever still runs at the end of the block is killed."""
    made = Cloud(pool, database_url, amqp_url, home, folder)
    try:
        yield made
    finally:
        made.end()


@asynccontextmanager
async def traffic(url: str, count: int = 3) -> AsyncIterator[list[Edge]]:
    """Edges that send from the beginning to the end of the block. Afterwards nothing of theirs is under way."""
    edges, is_over = [Edge(url, f"node-{number}") for number in range(count)], asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for edge in edges:
            group.create_task(edge.send_until(is_over))
        try:
            yield edges
        finally:
            is_over.set()


async def until_more_is_taken(edges: Sequence[Edge], rows: int, seconds: float = 90.0) -> None:
    """From each edge, so that none of them stands still."""
    wanted = [edge.taken + rows for edge in edges]

    async def is_taken() -> bool:
        return all(edge.taken >= want for edge, want in zip(edges, wanted, strict=True))

    await eventually(is_taken, seconds, f"{rows} more rows taken from each edge")

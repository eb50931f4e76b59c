"""The consumer stands still while its queue grows: neither it nor the entrance keeps in memory what the queue holds."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from farmiq.kit.postgres import Pool
from support.cloud_traffic import WORK_QUEUE, Cloud, cloud
from support.entrance import event, send, statuses
from support.rabbitmq import NewVirtualHost
from support.service_process import ServiceProcess
from support.waiting import eventually

PAYLOAD_BYTES = 60_000
BATCH = 15
WARM_UP = 150
EVENTS = 1_000
CONSUME_BATCH = 25
SHARE_KEPT = 0.1
"""At most so much of the queue's bytes may a service's memory grow by."""


def large_event(number: int) -> dict[str, Any]:
    return event(event_type="door.opened", payload={"number": number, "text": "x" * PAYLOAD_BYTES})


async def take_in(url: str, numbers: Sequence[int]) -> None:
    for first in range(0, len(numbers), BATCH):
        _, answer, _ = await send(url, *(large_event(number) for number in numbers[first : first + BATCH]))
        assert set(statuses(answer)) == {"accepted"}


async def until_stored(pool: Pool, count: int) -> None:
    async def are_stored() -> bool:
        return bool(await pool.fetchval("SELECT count(*) >= $1 FROM device_events", count))

    await eventually(are_stored, 120.0, f"{count} events in the cloud")


@asynccontextmanager
async def nothing_can_be_stored(pool: Pool) -> AsyncIterator[None]:
    """A long maintenance: the database answers, and whoever writes events waits."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute("LOCK TABLE device_events IN EXCLUSIVE MODE")
        yield


def memory_bytes(service: ServiceProcess) -> int:
    return int(psutil.Process(service.pid).memory_info().rss)


async def until_prefetched(here: Cloud, sent: int) -> None:
    """The consumer has taken all that it may, and the broker has the rest."""

    async def is_full() -> bool:
        return (await here.depths())[WORK_QUEUE.name] == sent - 2 * CONSUME_BATCH

    await eventually(is_full, 60.0, "the consumer to be full")


async def test_consumer_that_stands_still_holds_no_more_than_its_prefetch_and_then_stores_everything(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    async with cloud(cloud_pool, cloud_url, new_vhost(), run_folder, tmp_path) as here:
        ingestion = await here.ingestion()
        telemetry = await here.telemetry_service(CONSUME_BATCH_MESSAGES=str(CONSUME_BATCH))
        await take_in(ingestion.url, range(WARM_UP))
        await until_stored(cloud_pool, WARM_UP)
        before = {service: memory_bytes(service) for service in (ingestion, telemetry)}
        async with nothing_can_be_stored(cloud_pool):
            await take_in(ingestion.url, range(WARM_UP, WARM_UP + EVENTS))
            await until_prefetched(here, EVENTS)
            grown = {service.service: memory_bytes(service) - before[service] for service in before}
        assert max(grown.values()) < SHARE_KEPT * EVENTS * PAYLOAD_BYTES, grown
        await until_stored(cloud_pool, WARM_UP + EVENTS)
        await here.stop(telemetry)
        numbers = await cloud_pool.fetch("SELECT (payload->>'number')::int AS number FROM device_events")
        assert sorted(row["number"] for row in numbers) == list(range(WARM_UP + EVENTS))
        assert set((await here.depths()).values()) == {0}

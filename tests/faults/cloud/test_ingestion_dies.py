"""The entrance is killed at every step between a batch's arrival and its answer, and the edge repeats what was not answered."""

import asyncio
from collections import Counter
from pathlib import Path

import aiohttp
import pytest

from farmiq.cloud import bus_users
from farmiq.cloud.ingestion.main import serve
from farmiq.contracts import bus
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_outgoing import GROUP_MESSAGES_MAX
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.entrance import SERVICE, event, let_edge_in, remembered, send, statuses, until_ready
from support.rabbitmq import NewVirtualHost
from support.service_process import Death, running, service_process

BATCH = 250
GROUPS = 3  # in which a batch is written to the bus
# How many of the batch's events the bus may have when the process is dead, and whether they are remembered.
DEATHS: dict[str, tuple[Death, set[int], bool]] = {
    "between the dedupe rows and the bus": (("farmiq.cloud.ingestion.store:add", "after", 2), {0}, False),
    "with some of them sent": (
        ("farmiq.kit.amqp:write", "before", GROUPS + 2),
        set(range(GROUP_MESSAGES_MAX + 1)),
        False,
    ),
    "with a group of them confirmed": (
        ("farmiq.kit.amqp:Publisher._send", "after", GROUPS + 1),
        set(range(GROUP_MESSAGES_MAX, BATCH + 1)),
        False,
    ),
    "between the confirms and the commit": (("farmiq.kit.amqp:Publisher.publish_many", "after", 2), {BATCH}, False),
    "between the commit and the answer": (("farmiq.cloud.ingestion.api:answer_of", "before", 2), {BATCH}, True),
}


@pytest.mark.parametrize("moment", DEATHS)
async def test_killed_on_the_way_nothing_is_lost_and_every_event_is_remembered_once(
    moment: str, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    dies, on_the_bus, is_remembered = DEATHS[moment]
    amqp_url = new_vhost()
    await let_edge_in(cloud_pool)
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
    first, second = [event() for _ in range(BATCH)], [event() for _ in range(BATCH)]
    ids = [one["event_id"] for one in second]
    with service_process(SERVICE, environ, run_folder, tmp_path / "service.log", dies) as service:
        await until_ready(service.url)
        assert statuses((await send(service.url, *first))[1]) == ["accepted"] * BATCH
        with pytest.raises(aiohttp.ClientError):
            await send(service.url, *second)
        await asyncio.to_thread(service.wait_for_death)
    before = Counter(str(one.event_id) for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE))
    assert sum(before[event_id] for event_id in ids) in on_the_bus

    async with running(serve, SERVICE, environ) as url:
        await until_ready(url)
        expected = ["duplicate" if is_remembered else "accepted"] * BATCH
        assert statuses((await send(url, *second))[1]) == expected
        assert statuses((await send(url, *second, *first))[1]) == ["duplicate"] * BATCH * 2
    after = Counter(str(one.event_id) for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE))
    assert all(before[event_id] + after[event_id] in {1, 2} for event_id in ids)
    assert all(after[one["event_id"]] == 0 for one in first)
    assert await remembered(cloud_pool) == sorted([*ids, *(one["event_id"] for one in first)])


async def test_killed_between_an_event_and_its_copy_a_user_of_the_bus_gets_both_events_after_all(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    amqp_url = new_vhost()
    await let_edge_in(cloud_pool)
    async with cloud_pool.acquire() as database, connected(amqp_url, "test") as connection:
        user = await bus_users.add(database, "acme", "demo")
        await bus_users.make_queue(connection, user)
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
    dies: Death = ("farmiq.cloud.bus_users:publish_copies", "before", 2)
    first, second = event(), event()
    with service_process(SERVICE, environ, run_folder, tmp_path / "service.log", dies) as service:
        await until_ready(service.url)
        assert statuses((await send(service.url, first))[1]) == ["accepted"]
        with pytest.raises(aiohttp.ClientError):
            await send(service.url, second)
        await asyncio.to_thread(service.wait_for_death)
    assert await remembered(cloud_pool) == [first["event_id"]]
    async with running(serve, SERVICE, environ) as url:
        await until_ready(url)
        assert statuses((await send(url, second))[1]) == ["accepted"]
    copies = [str(one.event_id) for one in await take_all(amqp_url, user.queue)]
    assert copies == [first["event_id"], second["event_id"]]

"""A drained cloud takes nothing, on every replica and across restarts. Nobody publishes after a drain has begun."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import aiohttp
import pytest
import pytest_asyncio

from farmiq.cloud import drain
from farmiq.cloud.dead_letters import handlers
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.drain import Drained
from farmiq.cloud.ingestion.main import serve
from farmiq.cloud.telemetry_service.emission import tell_due
from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.contracts import event_types
from farmiq.contracts.bus import TELEMETRY_INGEST_QUEUE
from farmiq.contracts.telemetry import pack_of
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection, Pool
from support.bus_queue import take_all
from support.cloud_storing import delivery, store_all
from support.dead_letters import ALL, QUEUE, asked, filled, ids_in, letter, waiting_ids
from support.entrance import SERVICE, event, let_edge_in, remembered, send, statuses, until_ready
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.telemetry import batch_of, bus_body
from support.waiting import eventually


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest_asyncio.fixture
async def database(cloud_pool: Pool) -> AsyncIterator[Connection]:
    async with cloud_pool.acquire() as connection:
        yield connection


async def ready(url: str) -> tuple[int, dict[str, str]]:
    async with aiohttp.ClientSession(url) as session, session.get("/api/ready") as answer:
        return answer.status, (await answer.json()).get("remarks", {})


async def is_drained_in_metrics(url: str) -> bool:
    async with aiohttp.ClientSession(url) as session, session.get("/metrics") as answer:
        return "farmiq_ingestion_drained 1.0" in await answer.text()


async def test_a_drained_cloud_answers_503_on_every_replica_and_after_a_restart_until_it_is_resumed(
    amqp_url: str, cloud_url: str, cloud_pool: Pool, database: Connection
) -> None:
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
    await let_edge_in(cloud_pool)
    async with running(serve, SERVICE, environ) as first, running(serve, SERVICE, environ) as second:
        for url in (first, second):
            await until_ready(url)
        assert statuses((await send(first, event()))[1]) == ["accepted"]
        assert await ready(first) == (200, {})
        await drain.begin(database, "ann@barn")
        for url in (first, second):
            status, answer, retry_after = await send(url, event())
            assert (status, answer["error"]["code"], retry_after) == (503, "drained", "30")
            status, remarks = await ready(url)
            assert (status, "by ann@barn" in remarks["intake"]) == (200, True)
    async with running(serve, SERVICE, environ) as again:
        await until_ready(again)
        assert (await send(again, event()))[0] == 503
        await eventually(lambda: is_drained_in_metrics(again), what="the metric")
        assert len(await take_all(amqp_url, TELEMETRY_INGEST_QUEUE)) == len(await remembered(cloud_pool)) == 1
        assert await drain.end(database, "ann@barn") is not None
        assert statuses((await send(again, event()))[1]) == ["accepted"]
    assert len(await take_all(amqp_url, TELEMETRY_INGEST_QUEUE)) == 1


async def test_a_drain_begins_when_everybody_who_publishes_has_left_and_nobody_enters_after_it(
    cloud_pool: Pool, database: Connection
) -> None:
    async with cloud_pool.acquire() as publisher:
        under_way = publisher.transaction()
        await under_way.start()
        await drain.enter(publisher)
        beginning = asyncio.create_task(drain.begin(database, "ann@barn"))

        async def has_row() -> bool:
            return await drain.current(cloud_pool) is not None

        await eventually(has_row, what="the drain's row")
        assert not beginning.done()
        await under_way.commit()
        assert (await asyncio.wait_for(beginning, 20)).begun_by == "ann@barn"
        with pytest.raises(Drained):
            async with publisher.transaction():
                await drain.enter(publisher)


async def test_begun_twice_it_is_one_drain_and_ended_twice_it_is_over(database: Connection) -> None:
    first = await drain.begin(database, "ann@barn")
    assert await drain.begin(database, "bob@barn") == first
    assert await drain.end(database, "bob@barn") == first
    assert await drain.end(database, "bob@barn") is None
    assert (await drain.begin(database, "bob@barn")).begun_by == "bob@barn"
    assert await database.fetchval("SELECT count(*) FROM drains") == 2


async def test_aggregates_and_dead_letters_wait_in_the_database_while_the_cloud_is_drained(
    amqp_url: str, cloud_pool: Pool, database: Connection
) -> None:
    body = bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(uuid4(), 1, 100), 1, 100))
    await store_all(cloud_pool, delivery(body), plan=Plan(("1h", "1d"), settle_seconds=0))
    await cloud_pool.execute("UPDATE telemetry_agg_unsent SET due_at = '2020-01-01'")
    unsent = await cloud_pool.fetchval("SELECT count(*) FROM telemetry_agg_unsent WHERE due_at = '2020-01-01'")
    async with filled(amqp_url, letter(0)) as publisher:
        await drain.begin(database, "ann@barn")
        with pytest.raises(Drained):
            await tell_due(cloud_pool, publisher, Clock().now())
        with pytest.raises(Drained):
            await handlers.replay(
                database, amqp_url, publisher, asked("replay"), seen_max=ALL, pace=Pace(None, Clock())
            )
        due = await cloud_pool.fetchval("SELECT count(*) FROM telemetry_agg_unsent WHERE due_at = '2020-01-01'")
        assert (due, unsent > 0) == (unsent, True)
        await drain.end(database, "ann@barn")
        await handlers.replay(database, amqp_url, publisher, asked("replay"), seen_max=ALL, pace=Pace(None, Clock()))
    assert await ids_in(amqp_url, QUEUE) == ["m-0"]
    assert await waiting_ids(cloud_pool, amqp_url) == []

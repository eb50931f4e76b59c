"""`EXPAND_TELEMETRY_BATCHES`: packs are published as single samples too, and nobody counts a sample twice."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest
from msgspec import Raw

from farmiq.cloud.ingestion import edges, main
from farmiq.cloud.ingestion.expansion import Expansion
from farmiq.cloud.ingestion.handlers import Asked, PartlyPublished, ingest
from farmiq.cloud.ingestion.ownership import Owners
from farmiq.cloud.ingestion.screening import screen
from farmiq.cloud.telemetry_service import main as telemetry_service
from farmiq.cloud.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.contracts.envelope import BusEnvelope, payload_of
from farmiq.contracts.telemetry import TelemetryIngested, pack_of
from farmiq.kit.amqp import Publisher
from farmiq.kit.ids import sample_id
from farmiq.kit.postgres import Pool
from support.bus_queue import bind, take_all
from support.rabbitmq import NewVirtualHost
from support.service_process import running
from support.telemetry import CHANNELS, START_US, batch_of, bus_body
from support.waiting import eventually

TOKEN = secrets.token_urlsafe(24)
SINGLES = "farmiq.somebody.singles.queue"
Entrance = Callable[..., AbstractAsyncContextManager[aiohttp.ClientSession]]


def pack(stream: UUID, first: int, last: int, event_id: UUID | None = None) -> Raw:
    payload = pack_of(batch_of(stream, 1, 2000), first, last)
    return Raw(bus_body(event_types.TELEMETRY_BATCH_INGESTED, payload, event_id=event_id))


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
def entrance(cloud_url: str, cloud_pool: Pool, amqp_url: str) -> Entrance:
    @asynccontextmanager
    async def opened(**settings: str) -> AsyncIterator[aiohttp.ClientSession]:
        async with cloud_pool.acquire() as connection:
            await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=TOKEN)
        environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, **settings}
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            running(main.serve, "cloud-ingestion", environ) as url,
            aiohttp.ClientSession(url, headers=headers) as session,
        ):

            async def is_ready() -> bool:
                async with session.get("/api/ready") as answer:
                    return answer.status == 200

            await eventually(is_ready, what="readiness")
            await bind(amqp_url, SINGLES, bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_INGESTED)
            yield session

    return opened


async def send(session: aiohttp.ClientSession, *events: Raw) -> list[str]:
    body = b"[" + b",".join(bytes(event) for event in events) + b"]"
    async with session.post("/api/v1/edge/batch", data=body) as answer:
        told: dict[str, Any] = await answer.json()
        assert answer.status == 200, told
        return [result["status"] for result in told["results"]]


async def test_it_is_off_unless_asked_for(entrance: Entrance, amqp_url: str) -> None:
    async with entrance() as session:
        assert await send(session, pack(uuid4(), 1, 10)) == ["accepted"]
    assert await take_all(amqp_url, SINGLES) == []


async def test_every_sample_is_an_event_of_its_own_with_the_id_that_its_row_has(
    entrance: Entrance, amqp_url: str
) -> None:
    stream = uuid4()
    async with entrance(EXPAND_TELEMETRY_BATCHES="true") as session:
        assert await send(session, pack(stream, 3, 1203)) == ["accepted"]
        singles = await take_all(amqp_url, SINGLES)
        assert [single.event_id for single in singles] == [sample_id("demo", stream, seq) for seq in range(3, 1204)]
        check_single(singles[4], seq=7)
        assert await send(session, pack(stream, 3, 1203, event_id=UUID(int=1)), pack(stream, 1, 2)) == ["accepted"] * 2
        again = await take_all(amqp_url, SINGLES)
        assert {single.event_id for single in again} == {sample_id("demo", stream, seq) for seq in range(1, 1204)}


def check_single(single: BusEnvelope, seq: int) -> None:
    channel = CHANNELS[seq % 2]
    assert payload_of(single) == TelemetryIngested(
        metric_type=channel.metric, metric_value=float(seq), unit=channel.unit
    )
    assert (single.tenant_id, single.device_id, single.trace_id) == ("demo", "node-1", "trace-1")
    assert round(single.occurred_at.timestamp() * 1e6) == START_US + seq * 1_000_000


async def test_the_telemetry_service_stores_each_sample_once(
    entrance: Entrance, cloud_url: str, cloud_pool: Pool, amqp_url: str
) -> None:
    stream = uuid4()
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": "for-this-test"}
    async with (
        entrance(EXPAND_TELEMETRY_BATCHES="true") as session,
        running(telemetry_service.serve, "cloud-telemetry-service", environ),
    ):
        await send(session, *(pack(stream, first, first + 99) for first in range(1, 1001, 100)))

        async def is_drained() -> bool:
            query = "SELECT count(*) FROM telemetry_raw"
            return bool(await cloud_pool.fetchval(query) >= 1000) and not await take_all(
                amqp_url, bus.TELEMETRY_INGEST_QUEUE
            )

        await eventually(is_drained, what="the samples to be stored")
        assert await take_all(amqp_url, bus.dlq_for("cloud-telemetry-service")) == []
    counted = "SELECT count(*), sum(metric_value) FROM telemetry_raw"
    assert tuple(await cloud_pool.fetchrow(counted) or ()) == (1000, sum(range(1, 1001)))
    assert await cloud_pool.fetchval("SELECT sum(count) FROM telemetry_agg WHERE \"window\" = '1d'") == 1000


async def test_a_batch_with_more_samples_than_one_request_may_expand_is_done_in_several(
    cloud_pool: Pool, amqp_url: str
) -> None:
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    stream, edge = uuid4(), edges.Edge("edge-1", frozenset({"demo"}))
    items = screen(edge, [pack(stream, first, first + 9) for first in (1, 11, 21, 31, 41)], lambda: "made-here")
    for remembered in (2, 4):
        with pytest.raises(PartlyPublished) as refusal:
            await ingest(cloud_pool, publisher, Owners(), items, Asked(), Expansion(publisher, samples_max=25))
        assert refusal.value.code == "too_many_samples"
        assert await cloud_pool.fetchval("SELECT count(*) FROM ingest_dedupe") == remembered
    results, _ = await ingest(cloud_pool, publisher, Owners(), items, Asked(), Expansion(publisher, samples_max=25))
    assert [result.status for result in results] == ["duplicate"] * 4 + ["accepted"]
    await publisher.stop()
    arrived = await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)
    singles = {one.event_id for one in arrived if one.event_type == event_types.TELEMETRY_INGESTED}
    assert singles == {sample_id("demo", stream, seq) for seq in range(1, 51)}

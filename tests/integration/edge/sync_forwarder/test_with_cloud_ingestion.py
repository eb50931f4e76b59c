"""Outbox → forwarder → the real entrance → bus, with the entrance killed on the way."""

import asyncio
import secrets
from functools import partial
from uuid import UUID

from farmiq.cloud.ingestion import edges
from farmiq.contracts import bus
from farmiq.contracts.telemetry import TelemetryIngested
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool, open_pool
from farmiq.outbox import Announcer, Event, append
from farmiq.stack.postgres import Postgres
from support.bus_queue import take_all
from support.databases import set_back, take_snapshot
from support.outbox_rows import count_by_status
from support.rabbitmq import NewVirtualHost
from support.service_process import StartService, running, start_service
from support.telemetry import NOW
from support.waiting import eventually

__all__ = ["start_service"]  # a fixture
EVENTS = 600


async def test_every_event_reaches_the_bus_though_the_entrance_is_killed_on_the_way(
    edge_url: str,
    edge_pool: Pool,
    cloud_url: str,
    cloud_pool: Pool,
    new_vhost: NewVirtualHost,
    start_service: StartService,
) -> None:
    amqp_url, token = new_vhost(), secrets.token_urlsafe(24)
    async with cloud_pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=token)
    ids = [new_id() for _ in range(EVENTS)]
    entrance = await asyncio.to_thread(
        start_service, "cloud-ingestion", {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
    )
    settings = {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": f"{entrance.url}/api/v1/edge/batch",
        "CLOUD_INGESTION_TOKEN": token,
        "EDGE_CLUSTER_ID": "edge-1",
        "OUTBOX_BATCH_SIZE": "10",
        "SYNC_BATCH_EVENTS_SECONDS": "0",
        "OUTBOX_MAX_ATTEMPTS": "1",
        "OUTBOX_BACKOFF_CAP_SECONDS": "1",
    }

    async def acked_at_least(count: int) -> bool:
        return (await count_by_status(edge_pool)).get("acked", 0) >= count

    async with running(serve, "edge-sync-forwarder", settings):
        await write(edge_pool, ids)
        for share in (0.1, 0.4):
            await eventually(partial(acked_at_least, int(share * EVENTS)))
            entrance.kill()
            await asyncio.to_thread(entrance.start)
        await eventually(lambda: acked_at_least(EVENTS), seconds=60)

    rows = await edge_pool.fetch("SELECT DISTINCT status, attempt_count FROM sync_outbox")
    assert [tuple(row) for row in rows] == [("acked", 0)]
    assert {event.event_id for event in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)} == set(ids)
    known = [row["event_id"] for row in await cloud_pool.fetch("SELECT event_id FROM ingest_dedupe")]
    assert sorted(known) == sorted(ids)


async def test_a_cloud_that_lost_commits_without_a_word_gets_them_again(
    edge_url: str,
    edge_pool: Pool,
    cloud_url: str,
    new_vhost: NewVirtualHost,
    start_service: StartService,
    _postgres: Postgres,  # noqa: PT019 - its value is used
) -> None:
    """promise-cloud 11: its database is set back to a snapshot, and the edge has nothing new to send."""
    amqp_url, token = new_vhost(), secrets.token_urlsafe(24)
    async with await open_pool(cloud_url, service="test") as pool, pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=token)
    entrance = await asyncio.to_thread(
        start_service, "cloud-ingestion", {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}
    )
    settings = {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": f"{entrance.url}/api/v1/edge/batch",
        "CLOUD_INGESTION_TOKEN": token,
        "EDGE_CLUSTER_ID": "edge-1",
        "SYNC_BATCH_EVENTS_SECONDS": "0",
        "SYNC_EPOCH_SECONDS": "1",
    }
    kept, lost = [new_id() for _ in range(30)], [new_id() for _ in range(50)]

    async def acked(count: int) -> bool:
        return await count_by_status(edge_pool) == {"acked": count}

    async def arrived() -> list[UUID]:
        return sorted(event.event_id for event in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE))

    async with running(serve, "edge-sync-forwarder", settings):
        await write(edge_pool, kept)
        await eventually(lambda: acked(30))
        assert await arrived() == sorted(kept)
        snapshot = await take_snapshot(_postgres, cloud_url)
        await write(edge_pool, lost)
        await eventually(lambda: acked(80))
        assert await arrived() == sorted(lost)
        await set_back(_postgres, cloud_url, snapshot)

        async def knows_all() -> bool:
            async with await open_pool(cloud_url, service="test") as pool:
                known = await pool.fetch("SELECT event_id FROM ingest_dedupe")
            return sorted(row["event_id"] for row in known) == sorted(kept + lost) and await acked(80)

        await eventually(knows_all, seconds=60)
    # Also what it remembers from before: its message may have been lost, and whoever has it recognises it.
    assert await arrived() == sorted(kept + lost)


async def write(pool: Pool, ids: list[UUID]) -> None:
    events = [
        Event(
            id=event_id,
            tenant_id="demo",
            farm_id="farm-1",
            barn_id="barn-1",
            device_id="node-1",
            event_type="telemetry.ingested",
            occurred_at=NOW,
            payload=TelemetryIngested(metric_type="temperature", metric_value=26.4, unit="C"),
        )
        for event_id in ids
    ]
    async with pool.acquire() as connection:
        await append(connection, events)
    announcer = Announcer(pool)
    announcer.announce()
    await announcer.close()

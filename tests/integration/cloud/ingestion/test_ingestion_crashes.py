"""A real cloud-ingestion process, stopped at the two places that matter: before the bus confirms, and before the commit."""

import asyncio
import secrets
from typing import Any
from uuid import UUID

import aiohttp
import pytest

from farmiq.cloud.ingestion import edges
from farmiq.contracts import bus
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.bus_queue import take_all
from support.rabbitmq import NewVirtualHost
from support.service_process import ServiceProcess, StartService, start_service
from support.waiting import eventually

__all__ = ["start_service"]  # a fixture
SERVICE = "cloud-ingestion"
TOKEN = secrets.token_urlsafe(24)
GATE = 4711


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


async def start(start_service: StartService, pool: Pool, cloud_url: str, amqp_url: str) -> ServiceProcess:
    async with pool.acquire() as connection:
        await edges.register(connection, edge_cluster_id="edge-1", tenant_ids=["demo"], token=TOKEN)
    process = await asyncio.to_thread(start_service, SERVICE, {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url})
    await until_ready(process)
    return process


async def until_ready(process: ServiceProcess) -> None:
    async def is_ready() -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{process.url}/api/ready") as answer:
            return answer.status == 200

    await eventually(is_ready, what="readiness")


async def send(process: ServiceProcess, event_id: UUID) -> str:
    """The event's result, or "connection lost"."""
    event: dict[str, Any] = {
        "event_id": str(event_id),
        "event_type": "telemetry.ingested",
        "tenant_id": "demo",
        "device_id": "node-1",
        "occurred_at": "2026-01-01T10:00:00Z",
        "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
    }
    headers = {"authorization": f"Bearer {TOKEN}"}
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{process.url}/api/v1/edge/batch", json=[event], headers=headers) as answer,
        ):
            assert answer.status == 200
            return str((await answer.json())["results"][0]["status"])
    except aiohttp.ClientError:
        return "connection lost"


async def remembered(pool: Pool) -> list[UUID]:
    return [row["event_id"] for row in await pool.fetch("SELECT event_id FROM ingest_dedupe")]


async def is_gone(pool: Pool) -> bool:
    found = await pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1", SERVICE
    )
    return not found


async def test_killed_before_the_bus_has_the_event_nothing_is_left_and_it_is_accepted_when_it_comes_again(
    cloud_url: str, cloud_pool: Pool, amqp_url: str, start_service: StartService
) -> None:
    process = await start(start_service, cloud_pool, cloud_url, amqp_url)
    event_id = new_id()
    async with cloud_pool.acquire() as holder:
        # Somebody else is writing the same dedupe row, so the service waits with nothing published yet.
        hold = holder.transaction()
        await hold.start()
        await holder.execute("INSERT INTO ingest_dedupe (tenant_id, event_id) VALUES ('demo', $1)", event_id)
        sending = asyncio.create_task(send(process, event_id))
        await eventually(lambda: lock_waiters(cloud_pool, 1), what="the dedupe row to be waited for")
        process.kill()
        assert await sending == "connection lost"
        await hold.rollback()
    await eventually(lambda: is_gone(cloud_pool), what="the dead process's transaction to end")
    assert await remembered(cloud_pool) == []
    assert await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE) == []

    await asyncio.to_thread(process.start)
    await until_ready(process)
    assert await send(process, event_id) == "accepted"
    assert [event.event_id for event in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)] == [event_id]
    assert await remembered(cloud_pool) == [event_id]


async def test_killed_between_confirm_and_commit_the_event_is_published_again_under_the_same_id_and_never_lost(
    cloud_url: str, cloud_pool: Pool, amqp_url: str, start_service: StartService
) -> None:
    process = await start(start_service, cloud_pool, cloud_url, amqp_url)
    event_id = new_id()
    await make_commits_wait(cloud_pool)
    async with cloud_pool.acquire() as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", GATE)
        sending = asyncio.create_task(send(process, event_id))
        await eventually(lambda: lock_waiters(cloud_pool, 1), what="the commit to wait")
        assert [event.event_id for event in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)] == [event_id]
        assert not sending.done()
        process.kill()
        assert await sending == "connection lost"
        await end_sessions_of(cloud_pool, SERVICE)
        await holder.execute("SELECT pg_advisory_unlock($1)", GATE)
    assert await remembered(cloud_pool) == []

    await asyncio.to_thread(process.start)
    await until_ready(process)
    assert await send(process, event_id) == "accepted"
    assert [event.event_id for event in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)] == [event_id]
    assert await send(process, event_id) == "duplicate"
    assert await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE) == []


async def test_killed_between_commit_and_answer_the_event_is_a_duplicate_when_it_comes_again(
    cloud_url: str, cloud_pool: Pool, amqp_url: str, start_service: StartService
) -> None:
    process = await start(start_service, cloud_pool, cloud_url, amqp_url)
    event_id = new_id()
    await make_commits_wait(cloud_pool)
    async with cloud_pool.acquire() as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", GATE)
        sending = asyncio.create_task(send(process, event_id))
        await eventually(lambda: lock_waiters(cloud_pool, 1), what="the commit to wait")
        process.kill()
        assert await sending == "connection lost"
        # The server has been told to commit, and does so before it notices that nobody waits for the answer.
        await holder.execute("SELECT pg_advisory_unlock($1)", GATE)
    await eventually(lambda: is_gone(cloud_pool), what="the dead process's transaction to end")
    assert await remembered(cloud_pool) == [event_id]

    await asyncio.to_thread(process.start)
    await until_ready(process)
    assert await send(process, event_id) == "duplicate"
    assert [event.event_id for event in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)] == [event_id]


async def test_a_second_request_with_the_same_event_waits_for_the_first(
    cloud_url: str, cloud_pool: Pool, amqp_url: str, start_service: StartService
) -> None:
    process = await start(start_service, cloud_pool, cloud_url, amqp_url)
    event_id = new_id()
    await make_commits_wait(cloud_pool)
    async with cloud_pool.acquire() as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", GATE)
        first = asyncio.create_task(send(process, event_id))
        await eventually(lambda: lock_waiters(cloud_pool, 1), what="the first to wait at its commit")
        second = asyncio.create_task(send(process, event_id))
        await eventually(lambda: lock_waiters(cloud_pool, 2), what="the second to wait for the first")
        assert not second.done()
        await holder.execute("SELECT pg_advisory_unlock($1)", GATE)
    assert (await first, await second) == ("accepted", "duplicate")
    assert len(await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)) == 1


async def lock_waiters(pool: Pool, count: int) -> bool:
    found = await pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(found == count)


async def make_commits_wait(pool: Pool) -> None:
    """From now on a transaction that wrote a dedupe row waits at its commit for as long as the test holds the gate."""
    await pool.execute(
        f"""
        CREATE FUNCTION wait_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_advisory_xact_lock_shared({GATE}); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON ingest_dedupe DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW EXECUTE FUNCTION wait_at_the_gate();
        """
    )


async def end_sessions_of(pool: Pool, application_name: str) -> None:
    """A server that waits for a lock notices only afterwards that its client is gone, and would commit first."""
    await pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = $1",
        application_name,
    )
    await eventually(lambda: is_gone(pool), what="the dead process's transaction to end")

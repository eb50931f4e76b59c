"""The cloud is away for days, or fails, or the database restarts, or a forwarder sleeps through its lease."""

import asyncio
import os
import signal
from functools import partial
from itertools import cycle, islice
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from aiohttp import web

from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Pool, open_pool
from farmiq.outbox import CHANNEL
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.scripted_cloud import TOKEN, Received, Respond, ScriptedCloud, accept, cloud, status
from support.server_process import ServerProcess
from support.service_process import ServiceProcess, StartService, running, start_service
from support.waiting import eventually

__all__ = ["cloud", "start_service"]  # fixtures

SERVICE = "edge-sync-forwarder"
ADMIN = {"authorization": "Bearer admin-token"}
PROBES = 60
DAYS_OF_PROBES = 3 * 24 * 60  # one a minute
OPERATOR_INSERT = """
INSERT INTO sync_outbox (id, tenant_id, event_type, status, next_attempt_at, payload_json)
VALUES (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{"test": 1}')
RETURNING id
"""
OPERATOR_SELECT = """
SELECT status, attempt_count, next_attempt_at, last_error_code
FROM sync_outbox
WHERE status IN ('pending', 'dlq')
ORDER BY attempt_count DESC
"""


def environ(edge_url: str, cloud_url: str, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": cloud_url,
        "CLOUD_INGESTION_TOKEN": TOKEN,
        "EDGE_CLUSTER_ID": "edge-1",
        "SYNC_BATCH_EVENTS_SECONDS": "0",
        **more,
    }


async def counts_are(pool: Pool, **expected: int) -> bool:
    return await count_by_status(pool) == expected


async def has_failed(pool: Pool, times: int) -> bool:
    return bool(await pool.fetchval("SELECT coalesce(max(consecutive_failures), 0) >= $1 FROM sync_state", times))


async def let_the_pause_pass(pool: Pool) -> None:
    await pool.execute("UPDATE sync_state SET paused_until = now()")
    await pool.execute("SELECT pg_notify($1, '')", CHANNEL)


async def test_three_days_without_a_cloud_put_nothing_into_the_dlq_and_it_drains_by_itself(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    """Time is what the database says it is: each pause is moved to its end. The last minutes of the three days are played too."""
    ids = await fill_outbox(edge_pool, 250)
    reasons: list[Respond] = [status(503), status(429), status(502, body="<html>"), status(504), status(511)]
    cloud.script.extend(islice(cycle(reasons), PROBES))
    cloud.otherwise = status(503)
    async with running(serve, SERVICE, environ(edge_url, cloud.url)):
        for failures in range(1, PROBES + 1):
            await eventually(partial(has_failed, edge_pool, failures), what=f"probe {failures}")
            await let_the_pause_pass(edge_pool)
        await edge_pool.execute("UPDATE sync_state SET consecutive_failures = $1", DAYS_OF_PROBES)
        await let_the_pause_pass(edge_pool)
        await eventually(partial(has_failed, edge_pool, DAYS_OF_PROBES + 1))
        assert await edge_pool.fetchval("SELECT paused_until < now() + interval '62 s' FROM sync_state"), (
            "however long it was away, it is looked for every minute"
        )
        requests = len(cloud.received)
        assert requests <= PROBES + 8, "one batch is risked to find out"
        assert await counts_are(edge_pool, pending=len(ids))
        cloud.otherwise = accept
        await let_the_pause_pass(edge_pool)
        await eventually(partial(counts_are, edge_pool, acked=len(ids)))
    assert await edge_pool.fetchval("SELECT max(attempt_count) FROM sync_outbox") == 0
    delivered = [event_id for batch in cloud.received[requests:] for event_id in batch.ids]
    assert sorted(delivered) == sorted(ids)


async def test_a_failing_cloud_the_dlq_and_the_redrive_as_the_document_verifies_them(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService
) -> None:
    cloud.otherwise = status(500)
    event_id = await edge_pool.fetchval(OPERATOR_INSERT)
    settings = environ(edge_url, cloud.url, INTERNAL_ADMIN_ENABLED="true", ADMIN_TOKEN="admin-token")
    forwarder = await asyncio.to_thread(start_service, SERVICE, settings)
    async with aiohttp.ClientSession(forwarder.url) as session:
        await call(session, "POST", "/api/v1/sync/trigger")
        waits = [await wait_after(edge_pool, event_id, attempt) for attempt in range(1, 10)]
        await eventually(partial(counts_are, edge_pool, dlq=1))
        # 2^attempt seconds and up to one more, never above 300. The row's two times are microseconds apart.
        expected = [min(2.0**attempt, 300.0) for attempt in range(1, 10)]
        assert all(low - 0.01 < wait < low + 1.01 for low, wait in zip(expected, waits, strict=True)), waits
        assert waits[-1] < 300.01
        (row,) = await edge_pool.fetch(OPERATOR_SELECT)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("dlq", 10, "HTTP_500")
        assert len(cloud.received) == 10

        listed = await call(session, "GET", "/api/v1/sync/dlq")
        assert [entry["id"] for entry in listed["entries"]] == [str(event_id)]
        assert (await call(session, "GET", "/api/v1/sync/state"))["dlq_count"] == 1
        cloud.otherwise = accept
        await call(session, "POST", "/api/v1/sync/redrive", {"allDlq": True})
        await eventually(partial(counts_are, edge_pool, acked=1))
        state = await call(session, "GET", "/api/v1/sync/state")
    row = await outbox_row(edge_pool, event_id)
    assert (row["attempt_count"], row["dlq_reason"], row["failed_at"]) == (0, None, None)
    assert (state["pending_count"], state["claimed_count"], state["dlq_count"]) == (0, 0, 0)
    assert state["last_success_at"] is not None


async def call(session: aiohttp.ClientSession, method: str, path: str, body: object = None) -> dict[str, Any]:
    async with session.request(method, path, json=body, headers=ADMIN) as answer:
        assert answer.status in {200, 202}, await answer.text()
        told: dict[str, Any] = await answer.json()
        return told


async def wait_after(pool: Pool, event_id: UUID, attempt: int) -> float:
    """How long the row has to wait after this attempt. The wait itself is then over at once."""

    async def has_tried() -> bool:
        row = await outbox_row(pool, event_id)
        return bool(row["attempt_count"] == attempt and row["parked"])

    await eventually(has_tried, what=f"attempt {attempt}")
    query = "SELECT extract(epoch FROM next_attempt_at - last_attempt_at)::float8 FROM sync_outbox WHERE id = $1"
    seconds: float = await pool.fetchval(query, event_id)
    await pool.execute("UPDATE sync_outbox SET next_attempt_at = now() WHERE id = $1", event_id)
    await pool.execute("SELECT pg_notify($1, '')", CHANNEL)
    return seconds


async def test_the_database_restarts_in_the_middle_and_every_event_is_delivered(
    postgres_server: ServerProcess, cloud: ScriptedCloud, start_service: StartService
) -> None:
    """Once in good order, once with -9. What was claimed at that moment is sent again when its lease is over."""
    url = postgres_server.server.url()  # type: ignore[attr-defined]  # the fixture's server is a Postgres
    await migrate(url, "farmiq.edge.migrations")
    async with await open_pool(url, service="test") as pool:
        ids = await fill_outbox(pool, 600)
    settings = environ(url, cloud.url, OUTBOX_BATCH_SIZE="5", OUTBOX_LEASE_SECONDS="2", OUTBOX_BACKOFF_CAP_SECONDS="1")
    replicas = [
        await asyncio.to_thread(start_service, SERVICE, {**settings, "INSTANCE_ID": f"replica-{number}"})
        for number in range(2)
    ]
    for share, end in ((0.2, postgres_server.stop), (0.5, postgres_server.kill)):
        await eventually(partial(has_delivered, cloud, int(share * len(ids))), 60)
        await asyncio.to_thread(end)
        await asyncio.to_thread(postgres_server.start)
    async with await open_pool(url, service="test") as pool:
        await eventually(partial(counts_are, pool, acked=len(ids)), 60, "every row to be acknowledged")
        assert await pool.fetchval("SELECT max(attempt_count) FROM sync_outbox") <= 2
    assert set(cloud.times_received()) == set(ids)
    for replica in replicas:
        assert await asyncio.to_thread(replica.stop) == 0


async def has_delivered(cloud: ScriptedCloud, count: int) -> bool:
    return len(cloud.times_received()) >= count


@pytest.mark.parametrize("late", [accept, status(500), status(503)], ids=["accepted", "failed", "away"])
async def test_a_forwarder_that_sleeps_through_its_lease_in_the_middle_of_a_request_changes_nothing(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, start_service: StartService, late: Respond
) -> None:
    ids = await fill_outbox(edge_pool, 3)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def answer_late(received: Received) -> web.StreamResponse:
        asked.set()
        await answer.wait()
        return await late(received)

    cloud.script.append(answer_late)
    sleeper = await asyncio.to_thread(start_service, SERVICE, environ(edge_url, cloud.url, INSTANCE_ID="sleeper"))
    await asyncio.wait_for(asked.wait(), 20)
    send_signal(sleeper, signal.SIGSTOP)
    await edge_pool.execute("UPDATE sync_outbox SET lease_expires_at = now() WHERE status = 'claimed'")
    await asyncio.to_thread(start_service, SERVICE, environ(edge_url, cloud.url, INSTANCE_ID="other"))
    await eventually(partial(counts_are, edge_pool, acked=len(ids)))
    before = await edge_pool.fetch("SELECT * FROM sync_outbox ORDER BY id")
    assert {row["claimed_by"] for row in before} == {"other"}

    answer.set()
    send_signal(sleeper, signal.SIGCONT)
    await eventually(partial(has_noticed, sleeper), what="the sleeper to get its answer")
    assert await asyncio.to_thread(sleeper.stop) == 0
    assert await edge_pool.fetch("SELECT * FROM sync_outbox ORDER BY id") == before
    assert min(cloud.times_received().values()) == 2, "both have sent them; the cloud makes that once"


def send_signal(process: ServiceProcess, number: signal.Signals) -> None:
    assert process._process is not None
    os.kill(process._process.pid, number)


async def has_noticed(process: ServiceProcess) -> bool:
    """It wrote down an answer, or found its rows gone."""
    told = {line["message"] for line in process.log_lines()}
    return bool(told & {"leases_lost", "batch_answered", "batch_refused", "batch_deferred"})

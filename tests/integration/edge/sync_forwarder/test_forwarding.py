"""The forwarder against a scripted cloud: what is sent, and what each answer does to the rows."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp
import pytest
from aiohttp import web

from farmiq.contracts.sync import EventResult
from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.postgres import Pool
from farmiq.outbox import Announcer
from farmiq.stack.ports import free_port
from support.outbox_rows import count_by_status, fill_outbox, outbox_row
from support.scripted_cloud import TOKEN, Received, Respond, ScriptedCloud, accept, cloud, results, status
from support.service_process import running
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture
SERVICE = "edge-sync-forwarder"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def environ(edge_url: str, cloud_url: str, **more: str) -> dict[str, str]:
    return {
        "DATABASE_URL": edge_url,
        "CLOUD_INGESTION_URL": cloud_url,
        "CLOUD_INGESTION_TOKEN": TOKEN,
        "EDGE_CLUSTER_ID": "edge-1",
        "INSTANCE_ID": "replica-1",
        **more,
    }


async def trigger(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.post(f"{url}/api/v1/sync/trigger") as answer:
        assert answer.status == 202


async def all_acked(pool: Pool) -> bool:
    return set(await count_by_status(pool)) == {"acked"}


async def test_what_is_in_the_outbox_reaches_the_cloud_and_is_acknowledged(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    ids = await fill_outbox(edge_pool, 3, occurred_at=NOON, trace_id="trace-7", farm_id="farm-1")
    async with running(serve, SERVICE, environ(edge_url, cloud.url)):
        await eventually(lambda: all_acked(edge_pool))
    (batch,) = cloud.received
    assert (batch.tenant_id, batch.edge_cluster_id, batch.ids) == ("demo", "edge-1", ids)
    assert (batch.headers["content-encoding"], batch.headers["content-type"]) == ("zstd", "application/json")
    event = batch.events[0]
    assert (event.occurred_at, event.trace_id, event.farm_id, bytes(event.payload)) == (
        NOON,
        "trace-7",
        "farm-1",
        b'{"n": 0}',
    )
    row = await outbox_row(edge_pool, ids[0])
    assert (row["claimed_by"], row["attempt_count"]) == ("replica-1", 0)
    state = await edge_pool.fetchrow("SELECT * FROM sync_state")
    assert state is not None
    assert (state["tenant_id"], state["last_acked_event_id"], state["last_sent_batch_id"]) == (
        "demo",
        ids[-1],
        batch.batch_id,
    )
    assert (state["consecutive_failures"], state["paused_until"], state["last_error_at"]) == (0, None, None)


async def test_an_announced_event_does_not_wait_for_the_interval(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    async with running(serve, SERVICE, environ(edge_url, cloud.url, SYNC_INTERVAL_MS="3600000")):
        await eventually(lambda: listens(edge_pool), what="a listener")
        announcer = Announcer(edge_pool)
        for _ in range(3):
            (event_id,) = await fill_outbox(edge_pool, 1)
            announcer.announce()
            await eventually(lambda: all_acked(edge_pool))
        await announcer.close()
    assert cloud.received[-1].ids == [event_id]


async def listens(pool: Pool) -> bool:
    found = await pool.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%sync_outbox%'")
    return bool(found)


async def test_the_interval_finds_what_nobody_announced(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    async with running(serve, SERVICE, environ(edge_url, cloud.url, SYNC_INTERVAL_MS="300")):
        await fill_outbox(edge_pool, 1)
        await eventually(lambda: all_acked(edge_pool))
        await fill_outbox(edge_pool, 1)
        await eventually(lambda: all_acked(edge_pool))
    assert len(cloud.received) == 2


async def test_tenants_take_turns_and_a_long_backlog_holds_nobody_up(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 50, tenant_id="big")
    for tenant_id in ("a", "z"):
        await fill_outbox(edge_pool, 5, tenant_id=tenant_id)
    one_by_one = {"OUTBOX_BATCH_SIZE": "5", "SYNC_REQUESTS_IN_FLIGHT": "1"}
    async with running(serve, SERVICE, environ(edge_url, cloud.url, **one_by_one)):
        await eventually(lambda: all_acked(edge_pool))
    assert {batch.tenant_id for batch in cloud.received[:3]} == {"a", "big", "z"}
    assert all({event.tenant_id for event in batch.events} == {batch.tenant_id} for batch in cloud.received)
    assert len(cloud.received) == 12


async def test_a_rejected_event_is_set_aside_and_its_neighbours_are_acknowledged(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    good, bad, forgotten, known = await fill_outbox(edge_pool, 4)

    async def judge(_received: Received) -> web.Response:
        return results(
            [
                EventResult(event_id=good, status="accepted"),
                EventResult(event_id=bad, status="rejected", code="schema", message="no value"),
                EventResult(event_id=known, status="duplicate"),
            ]
        )

    cloud.script.append(judge)
    async with running(serve, SERVICE, environ(edge_url, cloud.url)):
        await eventually(lambda: is_parked(edge_pool, 2))
        rows = [await outbox_row(edge_pool, event_id) for event_id in (good, bad, forgotten, known)]
    assert [row["status"] for row in rows] == ["acked", "pending", "pending", "acked"]
    assert [row["attempt_count"] for row in rows] == [0, 1, 1, 0]
    assert [row["last_error_code"] for row in rows] == [None, "schema", "NO_RESULT", None]
    assert rows[1]["last_error_message"] == "no value"


async def is_parked(pool: Pool, count: int) -> bool:
    found = await pool.fetchval("SELECT count(*) FROM sync_outbox WHERE parked AND status = 'pending'")
    return bool(found == count)


async def test_a_failing_cloud_costs_attempts_and_ends_in_the_dlq(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    cloud.otherwise = status(500, body="boom")
    ids = await fill_outbox(edge_pool, 2)
    settings = environ(edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="3", OUTBOX_BACKOFF_CAP_SECONDS="1")
    async with running(serve, SERVICE, settings):
        await eventually(lambda: counts_are(edge_pool, {"dlq": 2}))
    assert cloud.alone() == dict.fromkeys(ids, 3)
    row = await outbox_row(edge_pool, ids[0])
    assert (row["attempt_count"], row["dlq_reason"], row["last_error_code"], row["last_error_message"]) == (
        3,
        "max_attempts_exceeded",
        "HTTP_500",
        "boom",
    )
    assert row["failed_at"] is not None
    state = await edge_pool.fetchrow("SELECT * FROM sync_state")
    assert state is not None
    assert (state["consecutive_failures"], state["last_error_code"]) == (0, "HTTP_500")


async def counts_are(pool: Pool, expected: dict[str, int]) -> bool:
    return await count_by_status(pool) == expected


@pytest.mark.parametrize(
    ("away", "code"),
    [
        (status(503), "HTTP_503"),
        (status(429), "HTTP_429"),
        (status(502, body="<html>bad gateway"), "HTTP_502"),
        (status(504), "HTTP_504"),
        (status(401), "HTTP_401"),
        (status(404), "HTTP_404"),
        (status(200, body="<html>please log in to the hotel wifi"), "NOT_THE_CLOUD"),
    ],
    ids=["503", "429", "502", "504", "401", "404", "captive portal"],
)
async def test_a_cloud_that_is_away_costs_no_attempt_and_it_drains_when_it_is_back(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, away: Respond, code: str
) -> None:
    cloud.otherwise = away
    ids = await fill_outbox(edge_pool, 3)
    async with running(serve, SERVICE, environ(edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="1")) as url:
        await eventually(partial(breaker_has, edge_pool, 1))
        for failures in (2, 3):
            await trigger(url)
            await eventually(partial(breaker_has, edge_pool, failures))
        row = await outbox_row(edge_pool, ids[0])
        assert (row["status"], row["attempt_count"], row["parked"], row["last_error_code"]) == (
            "pending",
            0,
            False,
            code,
        )
        cloud.otherwise = accept
        await trigger(url)
        await eventually(lambda: all_acked(edge_pool))
    assert await breaker_has(edge_pool, 0)
    assert (await outbox_row(edge_pool, ids[0]))["attempt_count"] == 0


async def breaker_has(pool: Pool, failures: int) -> bool:
    found: int | None = await pool.fetchval("SELECT consecutive_failures FROM sync_state")
    return found is not None and found >= failures if failures else found == 0


async def test_without_anybody_listening_or_answering_nothing_is_counted_either(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    (event_id,) = await fill_outbox(edge_pool, 1)
    nobody = f"http://127.0.0.1:{free_port()}/api/v1/edge/batch"
    async with running(serve, SERVICE, environ(edge_url, nobody)):
        await eventually(lambda: breaker_has(edge_pool, 1))
        row = await outbox_row(edge_pool, event_id)
    assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("pending", 0, "NETWORK_ERROR")

    never = asyncio.Event()

    async def hang(received: Received) -> web.Response:
        await never.wait()
        return await accept(received)

    cloud.script.append(hang)
    await edge_pool.execute("DELETE FROM sync_state")
    async with running(serve, SERVICE, environ(edge_url, cloud.url, SYNC_REQUEST_SECONDS="1")):
        await eventually(lambda: breaker_has(edge_pool, 1))
        row = await outbox_row(edge_pool, event_id)
        assert (row["status"], row["attempt_count"], row["last_error_code"]) == ("pending", 0, "TIMEOUT")
        await eventually(lambda: all_acked(edge_pool))
    never.set()


@pytest.mark.parametrize("code", [200, 502, 500])
async def test_an_answer_that_no_database_can_keep_does_not_end_the_forwarder(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud, code: int
) -> None:
    """A proxy's page in UTF-16: every other byte is a NUL."""
    (event_id,) = await fill_outbox(edge_pool, 1)
    page = "<html>".encode("utf-16-le").decode()
    cloud.script.append(status(code, body=page))
    async with running(serve, SERVICE, environ(edge_url, cloud.url, OUTBOX_BACKOFF_CAP_SECONDS="1")):
        await eventually(lambda: all_acked(edge_pool))
    assert "<\\0h\\0t" in (await outbox_row(edge_pool, event_id))["last_error_message"]


async def test_a_pause_ends_by_itself(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    cloud.script.append(status(503))
    await fill_outbox(edge_pool, 1)
    async with running(serve, SERVICE, environ(edge_url, cloud.url, OUTBOX_BACKOFF_CAP_SECONDS="1")):
        await eventually(lambda: all_acked(edge_pool))
    assert len(cloud.received) == 2


async def test_retry_after_is_honoured(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    cloud.script.append(status(503, retry_after="600"))
    await fill_outbox(edge_pool, 1)
    async with running(serve, SERVICE, environ(edge_url, cloud.url)):
        await eventually(lambda: breaker_has(edge_pool, 1))
    pause = await edge_pool.fetchval("SELECT paused_until - now() FROM sync_state")
    assert timedelta(seconds=500) < pause < timedelta(seconds=610)
    assert len(cloud.received) == 1


async def test_one_tenants_pause_is_not_anothers(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    async def only_for_good(received: Received) -> web.StreamResponse:
        return await (accept if received.tenant_id == "good" else status(503, retry_after="600"))(received)

    cloud.otherwise = only_for_good
    await fill_outbox(edge_pool, 1, tenant_id="bad")
    await fill_outbox(edge_pool, 25, tenant_id="good")
    async with running(serve, SERVICE, environ(edge_url, cloud.url, OUTBOX_BATCH_SIZE="5")):
        await eventually(lambda: counts_are(edge_pool, {"acked": 25, "pending": 1}))
    assert [batch.tenant_id for batch in cloud.received].count("bad") == 1


async def test_of_many_replicas_one_probes(edge_pool: Pool) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, consecutive_failures, paused_until) VALUES ('t', 3, now())"
    )

    async def ask() -> bool:
        async with edge_pool.acquire() as connection:
            return await store.take_probe(connection, "t", seconds=30, is_forced=False)

    assert sorted(await asyncio.gather(*(ask() for _ in range(6)))) == [False] * 5 + [True]


async def test_what_an_operator_inserts_is_sent_and_what_cannot_be_sent_stops_nobody(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, status, next_attempt_at, payload_json) VALUES"
        " (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{\"test\": 1}'),"
        " (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '[\"no object\"]'),"
        " (gen_random_uuid(), 'tenant-1', 'test.event', 'pending', NOW(), '{\"test\": 2}')"
    )
    async with running(serve, SERVICE, environ(edge_url, cloud.url, OUTBOX_MAX_ATTEMPTS="1")):
        await eventually(lambda: counts_are(edge_pool, {"acked": 2, "dlq": 1}))
    assert await edge_pool.fetchval("SELECT last_error_code FROM sync_outbox WHERE status = 'dlq'") == "UNSENDABLE"


async def test_a_large_batch_goes_in_several_requests(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    await fill_with_large_events(edge_pool)
    async with running(serve, SERVICE, environ(edge_url, cloud.url)):
        await eventually(lambda: all_acked(edge_pool))
    assert [len(batch.events) for batch in cloud.received] == [10, 5]
    assert set(cloud.times_received().values()) == {1}
    assert await claims_taken(edge_pool) == {1: 15}


async def fill_with_large_events(pool: Pool) -> None:
    """Fifteen that take two requests."""
    await pool.execute(
        "INSERT INTO sync_outbox (id, tenant_id, event_type, payload_json)"
        " SELECT gen_random_uuid(), 'demo', 'test.event', jsonb_build_object('filler', repeat('x', 400000))"
        " FROM generate_series(1, 15)"
    )


async def claims_taken(pool: Pool) -> dict[int, int]:
    rows = await pool.fetch("SELECT claim_token, count(*) FROM sync_outbox GROUP BY claim_token")
    return {row["claim_token"]: row["count"] for row in rows}

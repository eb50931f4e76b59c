"""The cloud has lost what it had acknowledged: the forwarder hears it in an answer, and sends that again."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID, uuid4

from aiohttp import web
from msgspec import structs

from farmiq.contracts.decoding import encode
from farmiq.contracts.sync import CloudEpoch, EventResult, answer_of
from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.jobs import jobs
from farmiq.edge.sync_forwarder.main import serve
from farmiq.edge.sync_forwarder.resending import resend_page
from farmiq.kit.postgres import Pool
from farmiq.outbox import Announcer
from support.forwarder import forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox
from support.scripted_cloud import Received, ScriptedCloud, cloud
from support.service_process import running
from support.stored_months import run_now
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture
SERVICE = "edge-sync-forwarder"
SENT_PICTURE = """
INSERT INTO media_transfers (media_id, tenant_id, farm_id, barn_id, device_id, bucket, object_key, mime_type, size_bytes, sha256,
                             captured_at, state, sent_at, sent_answer)
VALUES ($1, 'demo', 'f', 'b', 'd', 'bucket', 'key', 'image/jpeg', 1, repeat('0', 64), now(), 'sent', now(), $2)
"""
BEFORE = CloudEpoch(epoch=uuid4(), began_at=datetime(2026, 1, 1, tzinfo=UTC))


def after(answer: int | None) -> CloudEpoch:
    """A restored cloud; its clock is a year behind. Everything later than this answer may be gone."""
    return CloudEpoch(epoch=uuid4(), began_at=datetime(2025, 1, 1, tzinfo=UTC), resend_after=answer)


def accept_as(epoch: CloudEpoch, first_answer: int = 1) -> Callable[[Received], Awaitable[web.Response]]:
    numbers = count(first_answer)

    async def respond(received: Received) -> web.Response:
        results = [EventResult(event_id=event_id, status="accepted") for event_id in received.ids]
        number = next(numbers)
        said = structs.replace(epoch, answer=number, tokens=list(range(max(1, number - 100), number + 1)))
        return web.Response(body=encode(answer_of(None, results, said)), content_type="application/json")

    return respond


async def send(pool: Pool, count: int) -> None:
    await fill_outbox(pool, count)
    announcer = Announcer(pool)
    announcer.announce()
    await announcer.close()


async def test_what_a_restored_cloud_lacks_is_sent_again_once(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    cloud.otherwise = accept_as(BEFORE)
    sent, older, unknown = uuid4(), uuid4(), uuid4()
    for media_id, answer in ((sent, 2), (older, 0), (unknown, None)):
        await edge_pool.execute(SENT_PICTURE, media_id, answer)
    settings = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0", OUTBOX_BATCH_SIZE="5")

    async def acked(count: int) -> bool:
        return await count_by_status(edge_pool) == {"acked": count}

    async with running(serve, SERVICE, settings):
        await send(edge_pool, 20)
        await eventually(lambda: acked(20))
        assert set(cloud.times_received().values()) == {1}
        safe = {row["id"] for row in await edge_pool.fetch("SELECT id FROM sync_outbox WHERE acked_answer = 1")}
        lost = set(cloud.times_received()) - safe
        assert len(lost) == 15
        cloud.otherwise = accept_as(after(1), first_answer=5)
        await send(edge_pool, 1)

        async def resent() -> bool:
            return {cloud.times_received()[event_id] for event_id in lost} == {2} and await acked(21)

        async def is_over() -> bool:
            return await edge_pool.fetchval("SELECT resend_to IS NULL FROM sync_state") is True

        await eventually(resent)
        await eventually(is_over, what="the resending to end")
        assert await resend_page(edge_pool, datetime.now(UTC)) is None
    states = {
        row["media_id"]: row["state"] for row in await edge_pool.fetch("SELECT media_id, state FROM media_transfers")
    }
    assert states == {sent: "pending", older: "sent", unknown: "pending"}
    rows = await edge_pool.fetch("SELECT resend_from, resend_to, resend_after FROM sync_state")
    assert [tuple(row) for row in rows] == [(None, None, None)]
    assert {cloud.times_received()[event_id] for event_id in safe} == {1}


async def test_a_late_answer_of_the_epoch_before_acknowledges_nothing(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    late = asyncio.Event()

    async def answers_late(received: Received) -> web.Response:
        await late.wait()
        return await accept_as(BEFORE)(received)

    restored = after(0)
    cloud.script.append(answers_late)
    cloud.otherwise = accept_as(restored)
    settings = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0")
    async with running(serve, SERVICE, settings):
        [held] = await fill_outbox(edge_pool, 1)
        announcer = Announcer(edge_pool)
        announcer.announce()
        await eventually(lambda: _is_true(len(cloud.received) == 1))
        await send(edge_pool, 1)

        async def new_epoch_is_known() -> bool:
            return bool(await edge_pool.fetchval("SELECT cloud_epoch FROM sync_state") == restored.epoch)

        await eventually(new_epoch_is_known)
        late.set()

        async def all_acked() -> bool:
            return await count_by_status(edge_pool) == {"acked": 2}

        await eventually(all_acked)
        await announcer.close()
    # Once to the epoch that is over, and again to the one that counts.
    assert cloud.times_received()[held] == 2


async def test_no_clock_decides_what_is_sent_again(edge_pool: Pool) -> None:
    """promise-cloud 2: acknowledged while the edge's clock was right, three hours ahead, and two days behind."""
    now = datetime.now(UTC)
    ids = {
        name: await acknowledged(edge_pool, 5, now + wrong)
        for name, wrong in (("right", timedelta(0)), ("ahead", timedelta(hours=3)), ("behind", timedelta(days=-2)))
    }
    async with edge_pool.acquire() as connection:
        await connection.execute(
            "INSERT INTO sync_state (tenant_id, cloud_epoch, cloud_answer) VALUES ('demo', $1, 9)", uuid4()
        )
        await store.begin_epoch(connection, "demo", after(None))
    while await resend_page(edge_pool, datetime.now(UTC)) is not None:
        pass
    rows = {row["id"]: row["status"] for row in await edge_pool.fetch("SELECT id, status FROM sync_outbox")}
    assert {name: {rows[one] for one in some} for name, some in ids.items()} == {name: {"pending"} for name in ids}


async def test_an_edge_that_has_nothing_to_send_hears_of_it_too(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    """promise-cloud 3."""
    cloud.otherwise = accept_as(BEFORE)
    settings = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0", SYNC_EPOCH_SECONDS="1")
    async with running(serve, SERVICE, settings):
        await send(edge_pool, 20)

        async def acked_times(times: int) -> bool:
            counts = set(cloud.times_received().values())
            return counts == {times} and await count_by_status(edge_pool) == {"acked": 20}

        await eventually(lambda: acked_times(1))
        cloud.otherwise = accept_as(after(0), first_answer=100)
        await eventually(lambda: acked_times(2), seconds=30)
    assert any(not received.events and received.heard is not None for received in cloud.received)


async def test_what_the_cloud_may_have_lost_is_not_retired(edge_pool: Pool) -> None:
    """promise-cloud 3: it was acknowledged long ago, and nobody has heard since whether the cloud still has it."""
    settings = {"OUTBOX_RETENTION_DAYS": "7", "OUTBOX_EVENT_RETENTION_DAYS": "7"}
    retention = next(job for job in jobs(settings) if job.name == "outbox-retention")
    await acknowledged(edge_pool, 3, datetime.now(UTC) - timedelta(days=8))
    await edge_pool.execute("INSERT INTO sync_state (tenant_id, cloud_epoch) VALUES ('demo', $1)", uuid4())
    for heard_at in (None, timedelta(days=-2), timedelta(days=2)):
        await edge_pool.execute("UPDATE sync_state SET cloud_heard_at = now() + $1::interval", heard_at)
        assert await run_now(edge_pool, retention) == {"rows": 0, "kept_tenants": 1}
    await edge_pool.execute("UPDATE sync_state SET cloud_heard_at = now(), resend_to = 9")
    assert await run_now(edge_pool, retention) == {"rows": 0, "kept_tenants": 1}
    await edge_pool.execute("UPDATE sync_state SET resend_to = NULL")
    assert await run_now(edge_pool, retention) == {"rows": 3, "kept_tenants": 0}


async def acknowledged(pool: Pool, count: int, at: datetime) -> list[UUID]:
    ids = await fill_outbox(pool, count)
    await pool.execute("UPDATE sync_outbox SET status = 'claimed' WHERE id = ANY ($1)", ids)
    await pool.execute("UPDATE sync_outbox SET status = 'acked', updated_at = $2 WHERE id = ANY ($1)", ids, at)
    return ids


async def _is_true(answer: bool) -> bool:
    return answer

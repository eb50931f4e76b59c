"""The cloud went back to a backup: the forwarder hears it in an answer, and sends again what the cloud has lost."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from aiohttp import web

from farmiq.contracts.decoding import encode
from farmiq.contracts.sync import CloudLife, EventResult, answer_of
from farmiq.edge.sync_forwarder.main import serve
from farmiq.edge.sync_forwarder.resending import resend_page
from farmiq.kit.postgres import Pool
from farmiq.outbox import Announcer
from support.forwarder import forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox
from support.scripted_cloud import Received, ScriptedCloud, cloud
from support.service_process import running
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture
SERVICE = "edge-sync-forwarder"
SENT_PICTURE = """
INSERT INTO media_transfers (media_id, tenant_id, farm_id, barn_id, device_id, bucket, object_key, mime_type, size_bytes, sha256,
                             captured_at, state, sent_at)
VALUES ($1, 'demo', 'f', 'b', 'd', 'bucket', 'key', 'image/jpeg', 1, repeat('0', 64), now(), 'sent', now() - $2::interval)
"""
BEFORE = CloudLife(epoch=uuid4(), began_at=datetime(2026, 1, 1, tzinfo=UTC))


def after(taken_at: datetime) -> CloudLife:
    return CloudLife(epoch=uuid4(), began_at=datetime.now(UTC), resend_since=taken_at)


def accept_as(life: CloudLife) -> Callable[[Received], Awaitable[web.Response]]:
    async def respond(received: Received) -> web.Response:
        results = [EventResult(event_id=event_id, status="accepted") for event_id in received.ids]
        return web.Response(body=encode(answer_of(None, results, life)), content_type="application/json")

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
    sent, older = uuid4(), uuid4()
    for media_id, hours in ((sent, 0), (older, 5)):
        await edge_pool.execute(SENT_PICTURE, media_id, timedelta(hours=hours))
    settings = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0")

    async def acked(count: int) -> bool:
        return await count_by_status(edge_pool) == {"acked": count}

    async with running(serve, SERVICE, settings):
        await send(edge_pool, 20)
        await eventually(lambda: acked(20))
        assert set(cloud.times_received().values()) == {1}
        cloud.otherwise = accept_as(after(datetime.now(UTC) - timedelta(hours=1)))
        before = set(cloud.times_received())
        await send(edge_pool, 1)

        async def resent() -> bool:
            return {cloud.times_received()[event_id] for event_id in before} == {2} and await acked(21)

        async def is_over() -> bool:
            return await edge_pool.fetchval("SELECT resend_until IS NULL FROM sync_state") is True

        await eventually(resent)
        await eventually(is_over, what="the resending to end")
        assert await resend_page(edge_pool) is None
    states = {
        row["media_id"]: row["state"] for row in await edge_pool.fetch("SELECT media_id, state FROM media_transfers")
    }
    assert states == {sent: "pending", older: "sent"}
    rows = await edge_pool.fetch("SELECT resend_since, resend_until, resend_after FROM sync_state")
    assert [tuple(row) for row in rows] == [(None, None, None)]


async def test_a_late_answer_of_the_life_before_acknowledges_nothing(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    late = asyncio.Event()

    async def answers_late(received: Received) -> web.Response:
        await late.wait()
        return await accept_as(BEFORE)(received)

    restored = after(datetime.now(UTC) - timedelta(hours=1))
    cloud.script.append(answers_late)
    cloud.otherwise = accept_as(restored)
    settings = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0")
    async with running(serve, SERVICE, settings):
        [held] = await fill_outbox(edge_pool, 1)
        announcer = Announcer(edge_pool)
        announcer.announce()
        await eventually(lambda: _is_true(len(cloud.received) == 1))
        await send(edge_pool, 1)

        async def new_life_is_known() -> bool:
            return bool(await edge_pool.fetchval("SELECT cloud_epoch FROM sync_state") == restored.epoch)

        await eventually(new_life_is_known)
        late.set()

        async def all_acked() -> bool:
            return await count_by_status(edge_pool) == {"acked": 2}

        await eventually(all_acked)
        await announcer.close()
    # Once to the life that is over, and again to the one that counts.
    assert cloud.times_received()[held] == 2


async def _is_true(answer: bool) -> bool:
    return answer

"""Claims go on where the last ones ended. What lies before that place is sent all the same, and higher priorities first."""

from datetime import UTC, datetime, timedelta
from typing import Any

from farmiq.edge.sync_forwarder.main import serve
from farmiq.kit.postgres import Pool
from support.forwarder import SERVICE, forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox
from support.scripted_cloud import ScriptedCloud, cloud
from support.service_process import running
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def acked_is(pool: Pool, count: int) -> bool:
    return await count_by_status(pool) == {"acked": count}


async def test_what_comes_late_without_a_time_or_with_a_new_priority_is_sent_although_claims_are_past_it(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    later: list[dict[str, Any]] = [
        {"occurred_at": NOON - timedelta(days=7)},
        {"occurred_at": None},
        {"occurred_at": NOON, "priority": 50},
        {"occurred_at": NOON - timedelta(days=1), "priority": -50},
        {"occurred_at": NOON, "tenant_id": "another"},
    ]
    sent = 0
    environ = forwarder_environ(edge_url, cloud.url, SYNC_INTERVAL_MS="3600000", OUTBOX_BATCH_SIZE="10")
    async with running(serve, SERVICE, environ):
        for fields in later:
            # A backlog in which most claims have a floor, and in the middle of it the one that lies below.
            for number in range(10):
                await fill_outbox(edge_pool, 20, occurred_at=NOON + timedelta(seconds=number))
            await edge_pool.execute("SELECT pg_notify('sync_outbox', '')")
            await fill_outbox(edge_pool, 1, **fields)
            await edge_pool.execute("SELECT pg_notify('sync_outbox', '')")
            sent += 201
            await eventually(lambda sent=sent: acked_is(edge_pool, sent))  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    assert set(cloud.times_received().values()) == {1}


async def test_live_events_overtake_a_backlog_that_is_being_drained(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    backlog = set(await fill_outbox(edge_pool, 3000, occurred_at=NOON, priority=0))
    environ = forwarder_environ(
        edge_url, cloud.url, OUTBOX_BATCH_SIZE="10", SYNC_REQUESTS_IN_FLIGHT="1", SYNC_INTERVAL_MS="3600000"
    )
    async with running(serve, SERVICE, environ):
        await eventually(lambda: has_received(cloud, 300), what="the drain to be under way")
        (live,) = await fill_outbox(edge_pool, 1, occurred_at=NOON + timedelta(days=1), priority=10)
        await eventually(lambda: acked_is(edge_pool, 3001), 60)
    order = [event_id for batch in cloud.received for event_id in batch.ids]
    assert live in order
    assert len(backlog & set(order[order.index(live) :])) > 500


async def has_received(cloud: ScriptedCloud, count: int) -> bool:
    return sum(len(batch.ids) for batch in cloud.received) >= count

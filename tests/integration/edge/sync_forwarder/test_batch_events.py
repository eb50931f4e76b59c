"""`sync.batch.sent` and `sync.batch.acked`: told once in a while, and never about themselves."""

from datetime import UTC, datetime

import msgspec
import pytest

from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.sync import SyncBatchAcked, SyncBatchSent
from farmiq.edge.sync_forwarder.main import serve
from farmiq.edge.sync_forwarder.reporter import report_due
from farmiq.kit.postgres import Pool
from support.forwarder import SERVICE, forwarder_environ
from support.outbox_rows import count_by_status, fill_outbox
from support.scripted_cloud import ScriptedCloud, cloud
from support.service_process import running
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


async def counts_are(pool: Pool, expected: dict[str, int]) -> bool:
    return await count_by_status(pool) == expected


def about_batches(cloud: ScriptedCloud) -> list[BusEnvelope]:
    return [event for batch in cloud.received for event in batch.events if event.event_type.startswith("sync.")]


async def test_many_requests_are_told_of_in_one_pair_and_the_pair_is_not_told_of(
    edge_url: str, edge_pool: Pool, cloud: ScriptedCloud
) -> None:
    await fill_outbox(edge_pool, 40)
    environ = forwarder_environ(
        edge_url, cloud.url, OUTBOX_BATCH_SIZE="5", SYNC_BATCH_EVENTS_SECONDS="1", SYNC_INTERVAL_MS="200"
    )
    async with running(serve, SERVICE, environ):
        await eventually(lambda: counts_are(edge_pool, {"acked": 42}), what="the pair to be delivered")
        assert await unreported(edge_pool) == 0
        # A later event is told of by itself: what was told has not been counted again.
        await fill_outbox(edge_pool, 1)
        await eventually(lambda: counts_are(edge_pool, {"acked": 45}), what="the second pair to be delivered")
    told = about_batches(cloud)
    sent = [msgspec.json.decode(event.payload, type=SyncBatchSent) for event in told if "sent" in event.event_type]
    acked = [msgspec.json.decode(event.payload, type=SyncBatchAcked) for event in told if "acked" in event.event_type]
    assert [(one.event_count, one.edge_cluster_id) for one in sent] == [(40, "edge-1"), (1, "edge-1")]
    assert [(one.event_count, one.status) for one in acked] == [(40, "acked"), (1, "acked")]
    assert [one.batch_id for one in sent] == [one.batch_id for one in acked]
    assert {one.batch_id for one in sent} <= {batch.batch_id for batch in cloud.received}
    assert {(event.tenant_id, event.farm_id, event.barn_id, event.device_id, event.session_id) for event in told} == {
        ("demo", None, None, None, None)
    }


async def unreported(pool: Pool) -> int:
    found: int = await pool.fetchval("SELECT sum(unreported_sent + unreported_acked)::int FROM sync_state")
    return found


async def test_none_are_sent_when_switched_off(edge_url: str, edge_pool: Pool, cloud: ScriptedCloud) -> None:
    await fill_outbox(edge_pool, 3)
    environ = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0")
    async with running(serve, SERVICE, environ):
        await eventually(lambda: counts_are(edge_pool, {"acked": 3}))
    assert about_batches(cloud) == []
    assert await counts_are(edge_pool, {"acked": 3})


async def test_a_report_is_made_once_however_many_replicas_look(edge_pool: Pool) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, last_sent_batch_id, unreported_sent, unreported_acked, unreported_since)"
        " VALUES ('a', 'b-1', 7, 5, now() - interval '1 minute'), ('b', 'b-2', 7, 0, now() - interval '1 minute'),"
        "        ('c', 'b-3', 1, 1, now() - interval '1 second'), ('d', NULL, 0, 0, NULL)"
    )
    assert await report_due(edge_pool, "edge-1", older_than_seconds=30, now=NOW) == 2
    assert await report_due(edge_pool, "edge-1", older_than_seconds=30, now=NOW) == 0
    rows = await edge_pool.fetch("SELECT tenant_id, event_type, priority FROM sync_outbox ORDER BY 1, 2")
    assert [tuple(row) for row in rows] == [
        ("a", "sync.batch.acked", -100),
        ("a", "sync.batch.sent", -100),
        ("b", "sync.batch.sent", -100),
    ]


async def test_a_report_that_cannot_be_appended_is_still_due(edge_pool: Pool) -> None:
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, last_sent_batch_id, unreported_sent, unreported_acked, unreported_since)"
        " VALUES ('a', 'b-1', 7, 5, now() - interval '1 minute')"
    )
    await edge_pool.execute("ALTER TABLE sync_outbox ADD CONSTRAINT full_disk CHECK (priority >= 0)")
    with pytest.raises(Exception, match="full_disk"):
        await report_due(edge_pool, "edge-1", older_than_seconds=30, now=NOW)
    await edge_pool.execute("ALTER TABLE sync_outbox DROP CONSTRAINT full_disk")
    assert await report_due(edge_pool, "edge-1", older_than_seconds=30, now=NOW) == 1
    assert (
        await edge_pool.fetchval("SELECT payload_json ->> 'event_count' FROM sync_outbox WHERE event_type LIKE '%sent'")
        == "7"
    )

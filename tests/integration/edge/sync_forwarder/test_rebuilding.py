"""A cloud that was restored from a backup older than the edge's outbox: what was measured is made into events again."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import msgspec
import pytest
from asyncpg import Record

from farmiq.contracts import event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.sync import CloudEpoch
from farmiq.contracts.telemetry import NO_LONGER_AT_EDGE, TelemetryBatchIngested
from farmiq.edge.sync_forwarder import resending, store
from farmiq.edge.sync_forwarder.envelopes import seal
from farmiq.edge.sync_forwarder.jobs import jobs
from farmiq.edge.sync_forwarder.main import serve
from farmiq.edge.telemetry_timeseries import intake, rebuilding
from farmiq.edge.telemetry_timeseries.jobs import jobs as telemetry_jobs
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan
from farmiq.kit.postgres import Pool
from farmiq.outbox.claim import claim
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.resend import BEHIND
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import acked
from farmiq.timeseries.admission import admit_batches
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.cloud_storing import delivery, store_all
from support.forwarder import forwarder_environ
from support.outbox_rows import count_by_status
from support.scripted_cloud import ScriptedCloud, cloud
from support.service_process import ServiceProcess, running
from support.stored_months import months_ago, run_now, settle_outbox, start_of, store_samples
from support.telemetry import HERE, NEIGHBOUR, NOW, batch_of, loss_of
from support.waiting import eventually

__all__ = ["cloud"]  # a fixture

RETENTION = next(job for job in jobs({}) if job.name == "outbox-retention")
STREAM, OTHER = uuid4(), uuid4()


@pytest.fixture
async def farm(edge_pool: Pool) -> Pool:
    """Twenty samples of one node and thirty of another, three readings and a loss: all acknowledged 31 days ago."""
    async with edge_pool.acquire() as connection, connection.transaction():
        packs = [
            StreamBatch(HERE, batch_of(STREAM, 1, 12)),
            StreamBatch(HERE, batch_of(STREAM, 16, 20)),
            StreamBatch(NEIGHBOUR, batch_of(OTHER, 1, 30)),
        ]
        await intake.store_batches(connection, [(one, "trace-1") for one in packs], NOW)
        await intake.record_loss(connection, HERE, uuid4(), "trace-2", loss_of(STREAM, 13, 15))
        readings = [
            SingleReading(HERE, uuid4(), NOW + timedelta(seconds=number), "ammonia", number / 3, "ppm")
            for number in range(3)
        ]
        await intake.store_readings(connection, [(one, "trace-3") for one in readings], NOW)
    await settle_outbox(edge_pool, "claimed", "acked")
    await edge_pool.execute("UPDATE sync_outbox SET acked_answer = 7, updated_at = now() - interval '31 days'")
    await edge_pool.execute(
        "INSERT INTO sync_state (tenant_id, cloud_epoch, cloud_answer, cloud_heard_at) VALUES ('demo', $1, 9, now())",
        uuid4(),
    )
    return edge_pool


async def restored(pool: Pool, resend_after: int) -> None:
    epoch = CloudEpoch(epoch=uuid4(), began_at=datetime(2026, 1, 1, tzinfo=UTC), answer=10, resend_after=resend_after)
    async with pool.acquire() as connection:
        await store.begin_epoch(connection, "demo", epoch)


async def resend_all(pool: Pool) -> int:
    """As the forwarder does, with the cloud taking everything at once."""
    pages = 0
    while await resending.resend_page(pool, NOW) is not None:
        pages += 1
        assert pages < 100
    return pages


async def waiting(pool: Pool) -> Sequence[Record]:
    return await pool.fetch("SELECT * FROM sync_outbox WHERE status = 'pending' ORDER BY priority DESC, id")


async def drain(edge: Pool, cloud: Pool) -> list[ClaimedEvent]:
    """What waits at the edge arrives in the cloud, in the order in which it is sent, and is acknowledged."""
    async with edge.acquire() as connection:
        events = await claim(connection, "demo", instance_id="a", limit=1000, lease_seconds=60)
        sealed, unsendable = seal(events)
        assert not unsendable
        for item in sealed:
            await store_all(cloud, delivery(item.body))
        await settle(connection, [acked(event) for event in events], 11)
    return events


async def samples_of(pool: Pool) -> list[tuple[object, ...]]:
    rows = await pool.fetch(
        "SELECT id, tenant_id, device_id, occurred_at, metric_type, metric_value, unit, stream_id, seq, sensor, time_quality"
        " FROM telemetry_raw ORDER BY device_id, occurred_at, id"
    )
    return [tuple(row) for row in rows]


async def test_a_cloud_restored_from_a_backup_older_than_the_outbox_gets_everything_that_the_edge_measured(
    farm: Pool, cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """promise-cloud 12."""
    assert await run_now(farm, RETENTION) == {"rows": 6, "kept_tenants": 0}
    monkeypatch.setattr(rebuilding.rebuild, "__kwdefaults__", {"rows_max": 4})
    await restored(farm, resend_after=6)
    assert await resend_all(farm) > 10
    rows = await waiting(farm)
    assert {row["priority"] for row in rows} == {BEHIND}
    await drain(farm, cloud_pool)
    assert await samples_of(cloud_pool) == await samples_of(farm)
    lost = await cloud_pool.fetch("SELECT event_id, first_seq, last_seq, reason FROM stream_losses")
    assert [tuple(row)[1:] for row in lost] == [(13, 15, "spool_cap")]
    assert lost[0]["event_id"] == await farm.fetchval("SELECT event_id FROM stream_losses")
    assert await farm.fetchval("SELECT resend_to IS NULL AND rebuild_device IS NULL FROM sync_state")


async def test_what_the_cloud_still_has_is_not_made_anew(farm: Pool) -> None:
    await run_now(farm, RETENTION)
    await restored(farm, resend_after=7)
    await resend_all(farm)
    assert [row["event_type"] for row in await waiting(farm)] == []


async def test_what_nobody_has_any_more_is_in_a_loss_record_once(farm: Pool, cloud_pool: Pool) -> None:
    """promise-cloud 12: the edge has deleted its samples by then; the cloud has some of them from before its backup."""
    await run_now(farm, RETENTION)
    await farm.execute("DELETE FROM telemetry_raw WHERE seq <= 10 AND stream_id = $1", STREAM)
    async with cloud_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(STREAM, 1, 4))], NOW)
    for _ in range(2):
        # Restored twice: nothing is declared a second time.
        await restored(farm, resend_after=0)
        await resend_all(farm)
        await drain(farm, cloud_pool)
    losses = await cloud_pool.fetch("SELECT first_seq, last_seq, count, reason FROM stream_losses ORDER BY first_seq")
    assert [tuple(row) for row in losses] == [(5, 10, 6, NO_LONGER_AT_EDGE), (13, 15, 3, "spool_cap")]
    [stream] = await cloud_pool.fetch("SELECT received::text, lost::text FROM streams WHERE stream_id = $1", STREAM)
    assert tuple(stream) == ("{[1,5),[11,13),[16,21)}", "{[5,11),[13,16)}")


async def test_made_anew_is_only_as_much_as_the_cloud_takes(farm: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    await run_now(farm, RETENTION)
    monkeypatch.setattr(rebuilding.rebuild, "__kwdefaults__", {"rows_max": 1})
    monkeypatch.setattr(store, "REBUILT_WAITING_MAX", 3)
    await restored(farm, resend_after=0)
    await resend_all(farm)
    assert len(await waiting(farm)) == 3
    while rows := await waiting(farm):
        assert len(rows) <= 4  # one page may bring two: the losses of a device
        await settle_outbox(farm, "claimed", "acked")
        await resend_all(farm)
    assert await farm.fetchval("SELECT resend_to IS NULL FROM sync_state")


@pytest.mark.parametrize("line", ["rebuild", "store.note_rebuilt", "store.end_rebuilding"])
async def test_cut_between_any_two_steps_nothing_is_left_out_and_nothing_is_made_twice(
    farm: Pool, cloud_pool: Pool, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """The connection that is lost takes its transaction with it: the same page comes again."""
    await run_now(farm, RETENTION)
    await restored(farm, resend_after=0)
    owner, name = (resending, line) if "." not in line else (store, line.partition(".")[2])
    original = getattr(owner, name)

    class Cut(Exception):
        pass

    async def cut(*given: object) -> object:
        await original(*given)
        raise Cut

    is_over = False
    while not is_over:
        with monkeypatch.context() as once, contextlib.suppress(Cut):
            once.setattr(owner, name, cut)
            is_over = await resending.resend_page(farm, NOW) is None
        is_over = is_over or await resending.resend_page(farm, NOW) is None
    packs = [
        msgspec.json.decode(event.payload, type=TelemetryBatchIngested)
        for event in await drain(farm, cloud_pool)
        if event.event_type == event_types.TELEMETRY_BATCH_INGESTED
    ]
    covered = [(pack.stream_id, seq) for pack in packs for seq in range(pack.seq0, pack.last_seq + 1)]
    assert sorted(covered) == sorted(set(covered))
    assert await samples_of(cloud_pool) == await samples_of(farm)


@pytest.mark.parametrize(
    ("line", "moment", "call"),
    [("note_rebuilt", "before", 2), ("note_rebuilt", "after", 2), ("end_rebuilding", "before", 1)],
)
async def test_killed_while_it_makes_events_anew_the_forwarder_goes_on_where_it_was(
    farm: Pool, edge_url: str, cloud_pool: Pool, cloud: ScriptedCloud, run_folder: Path, tmp_path: Path,
    line: str, moment: Literal["before", "after"], call: int,
) -> None:  # fmt: skip
    await run_now(farm, RETENTION)
    await restored(farm, resend_after=0)
    settings = forwarder_environ(edge_url, cloud.url, SYNC_BATCH_EVENTS_SECONDS="0", OUTBOX_LEASE_SECONDS="3")
    death = (f"farmiq.edge.sync_forwarder.store:{line}", moment, call)
    dying = ServiceProcess("edge-sync-forwarder", settings, run_folder, tmp_path / "dying.log", death)
    await asyncio.to_thread(dying.start, is_awaited=False)
    await asyncio.to_thread(dying.wait_for_death)

    async def is_over() -> bool:
        is_done = await farm.fetchval("SELECT resend_to IS NULL FROM sync_state")
        return bool(is_done) and set(await count_by_status(farm)) == {"acked"}

    async with running(serve, "edge-sync-forwarder", settings):
        await eventually(is_over, seconds=60)
    for received in cloud.received:
        for event in received.events:
            await store_all(cloud_pool, delivery(encode(event)))
    assert await samples_of(cloud_pool) == await samples_of(farm)


async def test_an_epoch_that_begins_meanwhile_begins_everything_anew(
    farm: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page had made is undone with it: its position belongs to the epoch before."""
    await run_now(farm, RETENTION)
    await restored(farm, resend_after=6)
    original = rebuilding.rebuild

    async def interrupted(*given: Any) -> object:
        monkeypatch.setattr(resending, "rebuild", original)
        made = await original(*given)
        await restored(farm, resend_after=5)
        return made

    while await farm.fetchval("SELECT rebuild_id IS NULL FROM sync_state"):
        await resending.resend_page(farm, NOW)
    await resending.resend_page(farm, NOW)
    before = await farm.fetchval("SELECT count(*) FROM sync_outbox")
    monkeypatch.setattr(resending, "rebuild", interrupted)
    with pytest.raises(store.RebuildingEnded):
        await resending.resend_page(farm, NOW)
    [state] = await farm.fetch("SELECT resend_from, rebuild_device FROM sync_state")
    assert tuple(state) == (5, None)
    assert await farm.fetchval("SELECT count(*) FROM sync_outbox") == before
    await resend_all(farm)
    assert await farm.fetchval("SELECT count(*) FROM sync_outbox") > before


async def test_aggregates_are_told_again(edge_pool: Pool) -> None:
    """An edge that sends aggregates alone has nothing else to send, and sends no samples now."""
    plan = SyncPlan("aggregated", "1h")
    async with edge_pool.acquire() as connection, connection.transaction():
        batch = StreamBatch(HERE, batch_of(STREAM, 1, 12))
        await intake.store_batches(connection, [(batch, "trace-1")], NOW, plan)
        await connection.execute("DELETE FROM telemetry_agg_unsent")
        await connection.execute("INSERT INTO outbox_retired VALUES ('demo', '1h', 5)")
        await connection.execute("INSERT INTO sync_state (tenant_id, cloud_epoch) VALUES ('demo', gen_random_uuid())")
    await restored(edge_pool, resend_after=4)
    await resend_all(edge_pool)
    assert await waiting(edge_pool) == []
    rows = await edge_pool.fetch('SELECT "window", metric_type FROM telemetry_agg_unsent ORDER BY 2')
    assert [tuple(row) for row in rows] == [("1h", "humidity"), ("1h", "temperature")]


async def test_events_stay_longer_than_what_was_measured(farm: Pool) -> None:
    """promise-cloud 12: sessions, weights, pictures and losses are nowhere else as they were sent."""
    [loss] = await farm.fetch("SELECT id FROM sync_outbox WHERE event_type = 'telemetry.loss'")
    await run_now(farm, RETENTION)
    assert [row["id"] for row in await farm.fetch("SELECT id FROM sync_outbox")] == [loss["id"]]
    assert [tuple(row) for row in await farm.fetch("SELECT * FROM outbox_retired")] == [("demo", "samples", 7)]
    await restored(farm, resend_after=6)
    await resending.resend_page(farm, NOW)
    assert loss["id"] in {row["id"] for row in await waiting(farm)}
    await settle_outbox(farm, "claimed", "acked")
    await farm.execute("UPDATE sync_state SET resend_to = NULL, rebuild_device = NULL")
    await farm.execute("UPDATE sync_outbox SET updated_at = now() - interval '366 days'")
    await run_now(farm, RETENTION)
    assert await farm.fetchval("SELECT count(*) FROM sync_outbox") == 0


async def test_samples_stay_as_long_as_the_cloud_may_want_them(edge_pool: Pool) -> None:
    """promise-cloud 12: all of them were acknowledged, and the cloud has not been heard since."""
    retention = next(job for job in telemetry_jobs({}) if job.name == "telemetry-retention")
    old = start_of(months_ago(6)) + timedelta(days=3)
    async with edge_pool.acquire() as connection:
        await connection.execute("SELECT ensure_month_partition('telemetry_raw', $1)", months_ago(6))
    await store_samples(edge_pool, [old, old + timedelta(hours=1)])
    await settle_outbox(edge_pool, "claimed", "acked")
    await edge_pool.execute("INSERT INTO sync_state (tenant_id, cloud_epoch) VALUES ('demo', gen_random_uuid())")
    for state in ("cloud_heard_at = now() - interval '25 hours'", "cloud_heard_at = now(), resend_to = 9"):
        await edge_pool.execute(f"UPDATE sync_state SET {state}")  # noqa: S608 - the two above
        report = await run_now(edge_pool, retention)
        assert (report["dropped"], report["held"]) == (0, 1)
    await edge_pool.execute("UPDATE sync_state SET resend_to = NULL")
    assert (await run_now(edge_pool, retention))["dropped"] == 1

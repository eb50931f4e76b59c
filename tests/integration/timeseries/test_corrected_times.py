"""Samples whose node's clock was wrong: stored at the corrected time, known for ever by the time on that clock."""

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest
from msgspec import UNSET

from farmiq.contracts.telemetry import TIME_QUALITY_CORRECTED, TelemetryBatch, TimeSegment, pack_of
from farmiq.contracts.timestamps import from_us, to_us
from farmiq.edge.telemetry_timeseries import rebuilding
from farmiq.edge.telemetry_timeseries.intake import store_batches
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches
from farmiq.timeseries.content import contents_of
from farmiq.timeseries.content_blocks import AfterBlock, contents, samples
from farmiq.timeseries.queries import readings
from farmiq.timeseries.samples import StreamBatch
from support.telemetry import HERE, NOW, START_US, batch_of

STREAM = UUID("00000000-0000-7000-8000-0000000000cc")
HOUR_US = 3_600_000_000
_ROWS = """SELECT seq, occurred_at, device_occurred_at, time_quality FROM telemetry_raw ORDER BY seq"""
_MINUTES = """SELECT bucket_start_at, sum(count)::int AS samples FROM telemetry_agg WHERE "window" = '1m' GROUP BY 1 ORDER BY 1"""


def corrected(*segments: TimeSegment) -> TelemetryBatch:
    """Sequences 1 to 60 of a clock that begins in 1970."""
    batch = batch_of(STREAM, 1, 60)
    times = [at - START_US for at in batch.t]
    return msgspec.structs.replace(batch, t=times, time_quality=0, time_correction=list(segments) or UNSET)


UNCORRECTED = corrected()
BATCH = corrected(TimeSegment(1, 0, START_US, 100_000))


async def admit(pool: Pool, batch: TelemetryBatch) -> None:
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch)], NOW)


async def test_rows_and_aggregates_have_the_corrected_time_and_rows_the_devices_own_beside_it(any_pool: Pool) -> None:
    await admit(any_pool, BATCH)
    rows = await any_pool.fetch(_ROWS)
    assert [to_us(row["occurred_at"]) for row in rows] == BATCH.occurred_us
    assert [to_us(row["device_occurred_at"]) for row in rows] == BATCH.t
    assert {row["time_quality"] for row in rows} == {TIME_QUALITY_CORRECTED}
    minutes = await any_pool.fetch(_MINUTES)
    assert sum(row["samples"] for row in minutes) == 60
    assert min(row["bucket_start_at"] for row in minutes) >= from_us(START_US) - timedelta(minutes=1)


async def test_a_right_clock_leaves_the_second_time_empty(any_pool: Pool) -> None:
    await admit(any_pool, UNCORRECTED)
    rows = await any_pool.fetch(_ROWS)
    assert [to_us(row["occurred_at"]) for row in rows] == UNCORRECTED.t
    assert {(row["device_occurred_at"], row["time_quality"]) for row in rows} == {(None, 0)}


async def test_digests_are_those_of_the_devices_own_times_at_every_tier(edge_pool: Pool, cloud_pool: Pool) -> None:
    """A cloud of 0.1.0 ignores the correction, and has the same digests all the same."""
    await admit(edge_pool, BATCH)
    await admit(cloud_pool, UNCORRECTED)
    pages = []
    for pool in (edge_pool, cloud_pool):
        async with pool.acquire() as connection:
            found, _ = await contents(
                connection, tenant_id="demo", device_ids=None, stream_id=None, begin=AfterBlock(UUID(int=0), 0),
                end_seq=1 << 62, merged_bits=0, with_rows=True, limit=10,
            )  # fmt: skip
        pages.append(found)
    assert pages[0] == pages[1]
    assert [row.digest for row in pages[0]] == [row.rows_digest for row in pages[0]]
    (content,) = contents_of([(StreamBatch(HERE, UNCORRECTED), (1, 61))]).values()
    assert pages[0][0].digest == f"{content.digest:016x}"


async def test_what_comes_again_with_another_correction_is_stored_once(any_pool: Pool) -> None:
    await admit(any_pool, BATCH)
    await admit(any_pool, corrected(TimeSegment(1, 0, START_US + HOUR_US, 0)))
    await admit(any_pool, UNCORRECTED)
    rows = await any_pool.fetch(_ROWS)
    assert [to_us(row["occurred_at"]) for row in rows] == BATCH.occurred_us
    minutes = await any_pool.fetch(_MINUTES)
    assert sum(row["samples"] for row in minutes) == 60


async def test_a_clock_that_was_set_in_the_middle_is_corrected_on_both_sides(any_pool: Pool) -> None:
    batch = corrected(TimeSegment(1, 0, START_US, 0), TimeSegment(31, 0, START_US - HOUR_US, 0))
    stepped = [at + (HOUR_US if seq >= 31 else 0) for seq, at in enumerate(batch.t, 1)]
    await admit(any_pool, msgspec.structs.replace(batch, t=stepped))
    rows = await any_pool.fetch(_ROWS)
    assert [to_us(row["occurred_at"]) for row in rows] == [START_US + at for at in UNCORRECTED.t]
    assert [to_us(row["device_occurred_at"]) for row in rows] == stepped


async def test_queries_show_both_times_and_the_audits_route_the_devices_own(any_pool: Pool) -> None:
    await admit(any_pool, BATCH)
    async with any_pool.acquire() as connection:
        found = await readings(
            connection, tenant_id="demo", device_id="node-1", since=from_us(START_US), until=from_us(START_US + HOUR_US),
            limit=100,
        )  # fmt: skip
        rows = await samples(connection, tenant_id="demo", stream_id=STREAM, span=(1, 61))
    newest = found.rows[0]
    assert (newest.seq, newest.occurred_at, newest.device_occurred_at) == (
        60, from_us(BATCH.occurred_us[-1]), from_us(BATCH.t[-1]),
    )  # fmt: skip
    assert (rows.t, rows.occurred_us) == (BATCH.t, BATCH.occurred_us)


@pytest.mark.parametrize("seqs", [(1, 60), (7, 42)])
async def test_the_edge_passes_the_correction_on_to_the_cloud(
    edge_pool: Pool, cloud_pool: Pool, seqs: tuple[int, int]
) -> None:
    batch = pack_of(BATCH, *seqs)
    async with edge_pool.acquire() as connection, connection.transaction():
        await store_batches(connection, [(StreamBatch(HERE, batch), "trace")], NOW)
    (payload,) = await edge_pool.fetch("SELECT payload_json::text AS pack, occurred_at FROM sync_outbox")
    pack = msgspec.json.decode(payload["pack"], type=TelemetryBatch)
    assert (pack.t, pack.occurred_us) == (batch.t, batch.occurred_us)
    assert to_us(payload["occurred_at"]) == batch.t[0]  # its id is made of the device's own time
    await admit(cloud_pool, pack)
    rows = [await pool.fetch(_ROWS) for pool in (edge_pool, cloud_pool)]
    assert [tuple(row) for row in rows[0]] == [tuple(row) for row in rows[1]]


async def test_a_pack_that_is_made_of_rows_for_a_restored_cloud_has_both_times(
    edge_pool: Pool, cloud_pool: Pool
) -> None:
    await admit(edge_pool, BATCH)
    async with edge_pool.acquire() as connection, connection.transaction():
        lost = rebuilding.Lost("demo", UUID(int=5))
        await rebuilding.rebuild(connection, lost, rebuilding.before("node-1"), NOW)
    (payload,) = await edge_pool.fetch("SELECT payload_json::text AS pack FROM sync_outbox")
    pack = msgspec.json.decode(payload["pack"], type=TelemetryBatch)
    assert pack.t == BATCH.t
    await admit(cloud_pool, pack)
    digests = [
        await pool.fetch("SELECT block, samples, digest FROM stream_content") for pool in (edge_pool, cloud_pool)
    ]
    assert [tuple(row) for row in digests[0]] == [tuple(row) for row in digests[1]]
    edge, cloud = [await pool.fetch(_ROWS) for pool in (edge_pool, cloud_pool)]
    for one, other in zip(edge, cloud, strict=True):
        assert (one["device_occurred_at"], other["time_quality"]) == (
            other["device_occurred_at"],
            TIME_QUALITY_CORRECTED,
        )
        assert abs(one["occurred_at"] - other["occurred_at"]) <= timedelta(microseconds=1)

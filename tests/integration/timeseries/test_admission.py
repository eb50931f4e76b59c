import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from farmiq.contracts.ack import STREAM_OF_ANOTHER_DEVICE
from farmiq.contracts.telemetry import T_MAX_US, T_MIN_US
from farmiq.kit.ids import sample_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries import store
from farmiq.timeseries.admission import Admission, admit_batches, declare_lost
from farmiq.timeseries.samples import StreamBatch
from farmiq.timeseries.stream import Origin
from support.telemetry import HERE, NEIGHBOUR, NOW, START_US, batch_of, loss_of


def batch(stream_id: UUID, first: int, last: int, origin: Origin = HERE) -> StreamBatch:
    return StreamBatch(origin, batch_of(stream_id, first, last))


async def admit(pool: Pool, batches: Sequence[StreamBatch]) -> list[Admission]:
    async with pool.acquire() as connection, connection.transaction():
        return await admit_batches(connection, batches, NOW)


async def stored_seqs(pool: Pool, stream_id: UUID) -> list[int]:
    rows = await pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream_id)
    return [row["seq"] for row in rows]


async def test_a_batch_delivered_again_changes_nothing(any_pool: Pool) -> None:
    stream = uuid4()
    assert await admit(any_pool, [batch(stream, 1, 10)]) == [Admission([(1, 11)])]
    assert await admit(any_pool, [batch(stream, 1, 10)]) == [Admission([])]
    assert await stored_seqs(any_pool, stream) == list(range(1, 11))
    totals = await any_pool.fetchrow(
        "SELECT sum(count) AS n, sum(sum_value) AS total FROM telemetry_agg WHERE \"window\" = '1d'"
    )
    assert totals is not None
    assert (totals["n"], totals["total"]) == (10, 55.0)


async def test_only_the_missing_part_of_an_overlapping_batch_is_stored(any_pool: Pool) -> None:
    stream = uuid4()
    await admit(any_pool, [batch(stream, 5, 8), batch(stream, 12, 14)])
    assert await admit(any_pool, [batch(stream, 1, 20)]) == [Admission([(1, 5), (9, 12), (15, 21)])]
    assert await stored_seqs(any_pool, stream) == list(range(1, 21))


async def test_a_row_carries_what_the_node_measured(any_pool: Pool) -> None:
    stream = uuid4()
    await admit(any_pool, [batch(stream, 2, 2)])
    row = await any_pool.fetchrow("SELECT * FROM telemetry_raw")
    assert row is not None
    assert row["id"] == sample_id("demo", stream, 2)
    assert (row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"]) == (
        "demo",
        "farm-1",
        "barn-1",
        "node-1",
    )
    assert (row["metric_type"], row["metric_value"], row["unit"], row["sensor"]) == ("temperature", 2.0, "C", "t1")
    assert row["occurred_at"] == datetime.fromtimestamp((START_US + 2_000_000) / 1e6, UTC)
    assert (row["time_quality"], row["ingested_at"]) == (2, NOW)


async def test_random_cuts_in_random_order_from_several_writers_store_each_sample_once(any_pool: Pool) -> None:
    rng = random.Random(11)
    streams = [uuid4(), uuid4(), uuid4()]
    jobs = [
        batch(stream, first, min(first + rng.randrange(1, 40), 200))
        for stream in streams
        for first in [*(rng.randrange(1, 200) for _ in range(25)), *range(1, 201, 20)]
    ]
    jobs += [batch(stream, first, first + 19) for stream in streams for first in range(1, 201, 20)]
    rng.shuffle(jobs)

    async def write(mine: list[StreamBatch]) -> None:
        while mine:
            size = rng.randrange(1, 5)
            await admit(any_pool, mine[:size])
            del mine[:size]

    await asyncio.gather(*(write(jobs[index::4]) for index in range(4)))
    for stream in streams:
        assert await stored_seqs(any_pool, stream) == list(range(1, 201))
    windows = await any_pool.fetch(
        'SELECT "window", sum(count) AS n, sum(sum_value) AS total FROM telemetry_agg GROUP BY 1'
    )
    assert {row["window"]: (row["n"], row["total"]) for row in windows} == dict.fromkeys(
        ("1m", "1h", "1d"), (600, 60_300.0)
    )


async def test_a_stream_of_another_device_is_refused_and_stores_nothing(any_pool: Pool) -> None:
    stream = uuid4()
    await admit(any_pool, [batch(stream, 1, 3)])
    refused, taken = await admit(any_pool, [batch(stream, 4, 6, NEIGHBOUR), batch(stream, 4, 5)])
    assert refused == Admission([], STREAM_OF_ANOTHER_DEVICE)
    assert taken == Admission([(4, 6)])
    assert await any_pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE tenant_id = 'other'") == 0


async def test_a_node_that_was_carried_to_another_barn_goes_on_with_its_stream(any_pool: Pool) -> None:
    stream, moved = uuid4(), Origin(HERE.tenant_id, HERE.farm_id, "barn-2", HERE.device_id)
    await admit(any_pool, [batch(stream, 1, 3)])
    assert await admit(any_pool, [batch(stream, 3, 6, moved)]) == [Admission([(4, 7)])]
    places = await any_pool.fetch("SELECT barn_id, count(*) FROM telemetry_raw GROUP BY 1 ORDER BY 1")
    assert [tuple(place) for place in places] == [("barn-1", 3), ("barn-2", 3)]


async def test_a_declared_loss_counts_as_filled_until_the_sample_turns_up(any_pool: Pool) -> None:
    stream, event_id = uuid4(), uuid4()
    await admit(any_pool, [batch(stream, 1, 5)])
    for expected in ([(6, 9)], [(6, 9)]):
        async with any_pool.acquire() as connection, connection.transaction():
            assert await declare_lost(connection, HERE, event_id, loss_of(stream, 4, 8)) == Admission(expected)
    await admit(any_pool, [batch(stream, 7, 7)])
    key = (HERE.tenant_id, stream)
    async with any_pool.acquire() as connection, connection.transaction():
        covered = (await store.lock_streams(connection, {key: HERE}))[key]
    assert covered.received == [(1, 6), (7, 8)]
    assert covered.lost == [(6, 7), (8, 9)]
    assert covered.filled() == [(1, 9)]
    assert await any_pool.fetchval("SELECT count(*) FROM stream_losses") == 1


@pytest.mark.parametrize("at_us", [0, 4_000_000_000_000_000, T_MIN_US, T_MAX_US])
async def test_a_sample_of_an_impossible_time_is_kept_all_the_same(any_pool: Pool, at_us: int) -> None:
    stream = uuid4()
    item = batch(stream, 1, 1)
    item.batch.t[0] = at_us
    assert await admit(any_pool, [item]) == [Admission([(1, 2)])]
    assert await any_pool.fetchval("SELECT tableoid::regclass::text FROM telemetry_raw") == "telemetry_raw_default"


async def test_a_backlog_older_than_every_partition_gets_its_own_months(any_pool: Pool) -> None:
    stream = uuid4()
    item = batch(stream, 1, 2)
    item.batch.t[:] = [1_700_000_000_000_000, 1_702_000_000_000_000]
    await admit(any_pool, [item])
    tables = await any_pool.fetch("SELECT DISTINCT tableoid::regclass::text AS name FROM telemetry_raw ORDER BY 1")
    assert [row["name"] for row in tables] == ["telemetry_raw_2023_11", "telemetry_raw_2023_12"]


async def test_a_rolled_back_transaction_leaves_nothing_behind(any_pool: Pool) -> None:
    stream = uuid4()
    async with any_pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await admit_batches(connection, [batch(stream, 1, 5)], NOW)
        await transaction.rollback()
    assert await any_pool.fetchval("SELECT count(*) FROM streams") == 0
    assert await admit(any_pool, [batch(stream, 1, 5)]) == [Admission([(1, 6)])]
    assert await stored_seqs(any_pool, stream) == [1, 2, 3, 4, 5]

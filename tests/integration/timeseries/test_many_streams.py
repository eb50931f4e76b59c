"""One device with thousands of streams: an account of it costs a number of statements that does not depend on them."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import asyncpg

from farmiq.contracts.timestamps import from_us
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries import completeness, spans
from farmiq.timeseries.accounts import Accounts, Depth, accounts
from farmiq.timeseries.admission import admit_batches
from farmiq.timeseries.completeness import GAPS_OF_DEVICE_MAX
from farmiq.timeseries.samples import StreamBatch
from support.telemetry import HERE, NOW, START_US, batch_of

FIRST = from_us(START_US)


async def open_torn_streams(pool: Pool, count: int) -> None:
    """Each with one sample, of a sequence that has nothing before it."""
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(uuid4(), 9, 9)) for _ in range(count)], NOW)


async def account(connection: Connection) -> Accounts:
    return await accounts(
        connection,
        tenant_id="demo",
        device_ids=["node-1"],
        since=FIRST - timedelta(hours=1),
        until=FIRST + timedelta(days=1),
        depth=Depth(rows_max=100_000),
    )


async def statements_of_one_look(pool: Pool) -> Sequence[str]:
    seen: list[str] = []

    def note(record: asyncpg.connection.LoggedQuery) -> None:
        seen.append(record.query)

    async with pool.acquire() as connection:
        with connection.query_logger(note):
            await account(connection)
            await spans.spans(
                connection,
                tenant_id="demo",
                device_id="node-1",
                since=FIRST,
                until=FIRST + timedelta(hours=1),
                late_after=timedelta(minutes=1),
            )
    return seen


async def test_twice_the_streams_cost_no_more_statements(any_pool: Pool) -> None:
    await open_torn_streams(any_pool, 60)
    few = await statements_of_one_look(any_pool)
    await open_torn_streams(any_pool, 60)
    many = await statements_of_one_look(any_pool)
    assert len(many) == len(few) < 30


async def test_gaps_beyond_the_bound_are_counted_without_a_time(any_pool: Pool) -> None:
    streams = GAPS_OF_DEVICE_MAX + 50
    await open_torn_streams(any_pool, streams)
    async with any_pool.acquire() as connection:
        found = await account(connection)
    (device,) = found.devices
    assert len(device.streams) == streams
    assert device.undated_missing == 50 * 8
    assert sum(hour.missing for hour in device.hours) == GAPS_OF_DEVICE_MAX * 8


async def test_the_gaps_of_the_longest_streams_keep_their_times(any_pool: Pool) -> None:
    """A device that opens streams by the thousand hides nothing of the one that it has measured with."""
    own = uuid4()
    async with any_pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, batch_of(own, 11, 30))], NOW)
    await open_torn_streams(any_pool, GAPS_OF_DEVICE_MAX + 50)
    async with any_pool.acquire() as connection:
        rows = await completeness.filled_streams(connection, tenant_id="demo", device_ids=["node-1"])
        gaps = await completeness.first_gaps(connection, tenant_id="demo", streams=rows)
    assert [(gap.first_seq, gap.last_seq) for gap in gaps[own]] == [(1, 10)]
    assert sum(map(len, gaps.values())) == GAPS_OF_DEVICE_MAX

"""Monthly partitions: nothing is lost for want of one, and making one is safe at any time."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from functools import partial
from uuid import uuid4

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from support.postgres import NewDatabase
from support.waiting import eventually

Connect = Callable[[str], Awaitable[asyncpg.Connection]]

ENSURE = "SELECT ensure_month_partition('telemetry_raw', $1)::text"
COLUMNS = ("id", "tenant_id", "farm_id", "barn_id", "device_id", "occurred_at", "metric_type", "metric_value")


def sample(occurred_at: datetime) -> tuple[object, ...]:
    return (uuid4(), "t", "f", "b", "d", occurred_at, "temperature", 26.4)


async def store(connection: asyncpg.Connection, *times: datetime) -> None:
    await connection.copy_records_to_table("telemetry_raw", records=[sample(at) for at in times], columns=COLUMNS)


async def partitions_used(connection: asyncpg.Connection) -> list[str]:
    rows = await connection.fetch("SELECT tableoid::regclass::text AS name FROM telemetry_raw ORDER BY occurred_at")
    return [row["name"] for row in rows]


async def test_times_that_cannot_be_are_kept_in_the_default_partition(
    edge: asyncpg.Connection, cloud: asyncpg.Connection
) -> None:
    for connection in (edge, cloud):
        await store(connection, datetime(1970, 1, 1, tzinfo=UTC), datetime(2099, 6, 1, tzinfo=UTC))
        assert await partitions_used(connection) == ["telemetry_raw_default", "telemetry_raw_default"]


async def test_last_month_to_the_month_after_next_are_made_by_the_migration(edge: asyncpg.Connection) -> None:
    times = await edge.fetch("SELECT now() + make_interval(months => n) AS at FROM generate_series(-1, 2) n")
    await store(edge, *(row["at"] for row in times))
    used = await partitions_used(edge)
    assert len(set(used)) == 4
    assert "telemetry_raw_default" not in used


async def test_a_new_partition_takes_over_the_rows_that_waited_in_the_default_one(edge: asyncpg.Connection) -> None:
    inside = [datetime(2031, 3, 1, tzinfo=UTC), datetime(2031, 3, 31, 23, 59, 59, 999999, tzinfo=UTC)]
    outside = [datetime(2031, 2, 28, 23, 59, 59, 999999, tzinfo=UTC), datetime(2031, 4, 1, tzinfo=UTC)]
    await store(edge, *inside, *outside)
    assert await edge.fetchval(ENSURE, date(2031, 3, 17)) == "telemetry_raw_2031_03"
    assert await partitions_used(edge) == [
        "telemetry_raw_default",
        "telemetry_raw_2031_03",
        "telemetry_raw_2031_03",
        "telemetry_raw_default",
    ]


async def test_making_a_partition_again_changes_nothing(edge: asyncpg.Connection) -> None:
    first = await edge.fetchval(ENSURE, date(2031, 3, 1))
    await store(edge, datetime(2031, 3, 5, tzinfo=UTC))
    assert await edge.fetchval(ENSURE, date(2031, 3, 31)) == first
    assert await partitions_used(edge) == [first]


async def test_a_new_partition_has_the_keys_and_indexes_of_the_table(edge: asyncpg.Connection) -> None:
    made = await edge.fetchval(ENSURE, date(2031, 3, 1))
    count = "SELECT count(*) FROM pg_index WHERE indrelid = $1::text::regclass"
    assert await edge.fetchval(count, made) == await edge.fetchval(count, "telemetry_raw") == 4
    assert await edge.fetchval(count + " AND indisprimary", made) == 1


async def test_bounds_are_in_utc_whatever_the_sessions_time_zone(edge: asyncpg.Connection) -> None:
    await edge.execute("SET LOCAL TimeZone = 'Pacific/Auckland'")
    await edge.execute(ENSURE, date(2031, 3, 1))
    await store(edge, datetime(2031, 2, 28, 23, 59, 59, tzinfo=UTC), datetime(2031, 3, 1, tzinfo=UTC))
    assert await partitions_used(edge) == ["telemetry_raw_default", "telemetry_raw_2031_03"]


async def test_a_table_without_months_is_refused_by_name(edge: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.WrongObjectTypeError, match="sync_outbox is not partitioned by range on one column"):
        await edge.execute("SELECT ensure_month_partition('sync_outbox', '2031-03-01')")


async def test_a_partition_that_retention_left_detached_is_named(edge: asyncpg.Connection) -> None:
    await edge.execute(ENSURE, date(2031, 3, 1))
    await edge.execute("ALTER TABLE telemetry_raw DETACH PARTITION telemetry_raw_2031_03")
    with pytest.raises(asyncpg.DuplicateTableError, match="telemetry_raw_2031_03 exists and is not attached"):
        await edge.execute(ENSURE, date(2031, 3, 1))


async def test_sessions_that_race_for_one_month_make_it_once(new_database: NewDatabase, connect: Connect) -> None:
    url = new_database()
    await migrate(url, "farmiq.edge.migrations")
    sessions = [await connect(url) for _ in range(8)]
    for month in [date(2031, number, 1) for number in range(1, 6)]:
        made = set(await asyncio.gather(*(session.fetchval(ENSURE, month) for session in sessions)))
        # None says that a session did not want to wait for the one that was making it.
        assert made - {None} == {month.strftime("telemetry_raw_%Y_%m")}
    count = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'telemetry_raw_2031_%'"
    assert await sessions[0].fetchval(count) == 5


async def test_no_sample_is_lost_or_refused_while_its_month_is_made(
    new_database: NewDatabase, connect: Connect
) -> None:
    url = new_database()
    await migrate(url, "farmiq.edge.migrations")
    maker, *writers = [await connect(url) for _ in range(4)]
    stop = asyncio.Event()

    async def write(connection: asyncpg.Connection) -> int:
        written = 0
        while not stop.is_set():
            await store(connection, *(datetime(2031, month, 2, tzinfo=UTC) for month in range(1, 13)))
            written += 12
        return written

    writing = [asyncio.create_task(write(writer)) for writer in writers]
    await eventually(lambda: maker.fetchval("SELECT count(*) > 100 FROM telemetry_raw"))
    for month in range(1, 13):
        await eventually(partial(maker.fetchval, ENSURE, date(2031, month, 1)))
    stop.set()
    written = sum(await asyncio.gather(*writing))
    assert written > 100
    assert await maker.fetchval("SELECT count(*) FROM telemetry_raw") == written
    assert await maker.fetchval("SELECT count(*) FROM telemetry_raw_default") == 0


async def test_writers_that_need_a_month_in_the_middle_of_their_transaction_all_commit(
    new_database: NewDatabase, connect: Connect
) -> None:
    url = new_database()
    await migrate(url, "farmiq.edge.migrations")
    writers = [await connect(url) for _ in range(3)]
    have_written = asyncio.Barrier(len(writers))

    async def write(connection: asyncpg.Connection) -> str | None:
        async with connection.transaction():
            await store(connection, datetime(1970, 1, 1, tzinfo=UTC))
            await have_written.wait()  # now each holds what the others would have to wait for
            made: str | None = await connection.fetchval(ENSURE, date(2031, 3, 1))
            await store(connection, datetime(2031, 3, 2, tzinfo=UTC))
        return made

    made = await asyncio.gather(*(write(writer) for writer in writers))
    assert set(made) <= {None, "telemetry_raw_2031_03"}
    assert await writers[0].fetchval("SELECT count(*) FROM telemetry_raw") == 2 * len(writers)
    assert await writers[0].fetchval(ENSURE, date(2031, 3, 1)) == "telemetry_raw_2031_03"
    assert await writers[0].fetchval("SELECT count(*) FROM telemetry_raw_2031_03") == len(writers)


async def test_a_long_query_holds_up_the_new_month_and_not_the_writers(
    new_database: NewDatabase, connect: Connect
) -> None:
    url = new_database()
    await migrate(url, "farmiq.edge.migrations")
    reader, maker, writer = [await connect(url) for _ in range(3)]
    month = datetime(2031, 3, 2, tzinfo=UTC)
    reading = reader.transaction()
    await reading.start()
    assert await reader.fetchval("SELECT count(*) FROM telemetry_raw") == 0

    assert await maker.fetchval(ENSURE, month.date()) is None
    await store(writer, month)
    assert await partitions_used(writer) == ["telemetry_raw_default"]
    await reading.rollback()
    assert await maker.fetchval(ENSURE, month.date()) == "telemetry_raw_2031_03"
    assert await partitions_used(writer) == ["telemetry_raw_2031_03"]

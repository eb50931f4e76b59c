"""What a database that is away, restarted or picky looks like from `kit.postgres`."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import msgspec
import pytest

from farmiq.kit.postgres import (
    AWAY,
    RETRY,
    DatabaseAway,
    Pool,
    SchemaMissing,
    certainly,
    open_pool,
    ping,
    require_schema,
)
from farmiq.stack.postgres import Postgres
from support.postgres import NewDatabase
from support.server_process import ServerProcess
from support.waiting import eventually


@pytest.fixture
async def pool(new_database: NewDatabase) -> AsyncIterator[Pool]:
    async with await open_pool(new_database(), service="edge-test") as pool:
        yield pool


async def test_json_passes_through_as_bytes_and_is_still_json_to_the_database(pool: Pool) -> None:
    sent = msgspec.Raw(b'{"value": 26.4, "unit": "C", "big": 123456789012345678901234567890}')

    row = await pool.fetchrow("SELECT $1::jsonb AS stored, $1::jsonb ->> 'unit' AS unit, $2::jsonb AS null", sent, None)

    assert row is not None
    assert isinstance(row["stored"], msgspec.Raw)
    assert b"123456789012345678901234567890" in bytes(row["stored"])
    assert (row["unit"], row["null"]) == ("C", None)
    assert msgspec.json.decode(await pool.fetchval("SELECT $1::jsonb", {"a": [1, None]})) == {"a": [1, None]}


async def test_the_database_knows_who_is_connected_and_speaks_utc(pool: Pool) -> None:
    name = await pool.fetchval("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")

    assert name == "edge-test"
    assert await pool.fetchval("SHOW timezone") == "UTC"


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("SELECT $1::int", ("not a number",)),
        ("SELECT $1::int2", (1 << 40,)),
        ("SELECT $1::text", ("a\0b",)),
        ("SELECT $1::jsonb", (msgspec.Raw(b'{"a": "\\u0000"}'),)),
        ("SELECT $1::jsonb", (msgspec.Raw(b"{"),)),
        ("SELECT $1::uuid", ("not-a-uuid",)),
        ("SELECT 1 / $1::int", (0,)),
        ("SELECT nonsense", ()),
    ],
)
async def test_what_the_database_will_never_take_is_not_taken_for_a_database_that_is_away(
    pool: Pool, query: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, ValueError)) as refusal:
        await pool.fetchval(query, *arguments)

    assert not isinstance(refusal.value, RETRY), f"would be tried for ever: {refusal.value!r}"


async def test_a_connection_goes_back_to_the_pool_without_asking_the_server(pool: Pool) -> None:
    async with pool.acquire() as connection:
        backend = await connection.fetchval("SELECT pg_backend_pid()")
    async with pool.acquire() as first, pool.acquire() as other:
        assert await first.fetchval("SELECT pg_backend_pid()") == backend
        last = await other.fetchval("SELECT query FROM pg_stat_activity WHERE pid = $1", backend)
    assert last == "SELECT pg_backend_pid()"


async def test_a_transaction_that_was_left_open_is_not_handed_to_the_next(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await connection.execute("BEGIN; CREATE TABLE half_done (id int)")
    assert await pool.fetchval("SELECT to_regclass('half_done') IS NULL")


async def test_a_lock_whose_answer_nobody_waited_for_is_held_by_nobody(pool: Pool) -> None:
    """Cancelled between the question and the answer: the server may well have locked."""
    async with pool.acquire() as holder, pool.acquire() as watcher:
        await holder.execute("SELECT pg_advisory_lock(7)")

        async def ask() -> None:
            async with pool.acquire() as asker:
                await certainly(asker, "SELECT pg_advisory_lock(7)")

        asking = asyncio.create_task(ask())
        waiting = "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        await eventually(lambda: watcher.fetchval(waiting), what="the other one waits for the lock")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await holder.execute("SELECT pg_advisory_unlock(7)")
        free = "SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'"
        await eventually(lambda: watcher.fetchval(free), what="nobody holds the lock")


async def test_two_transactions_in_each_others_way_may_be_tried_again(pool: Pool) -> None:
    await pool.execute("CREATE TABLE pair (id int PRIMARY KEY, value int); INSERT INTO pair VALUES (1, 0), (2, 0)")
    has_locked = [asyncio.Event(), asyncio.Event()]

    async def lock_both(mine: int, other: int) -> None:
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("UPDATE pair SET value = 1 WHERE id = $1", mine)
            has_locked[mine - 1].set()
            await has_locked[other - 1].wait()
            await connection.execute("UPDATE pair SET value = 1 WHERE id = $1", other)

    answers = await asyncio.gather(lock_both(1, 2), lock_both(2, 1), return_exceptions=True)

    [loser] = [answer for answer in answers if answer is not None]
    assert isinstance(loser, RETRY)
    assert not isinstance(loser, AWAY)


async def test_a_killed_database_is_away_and_the_same_pool_works_when_it_is_back(
    postgres_server: ServerProcess,
) -> None:
    assert isinstance(postgres_server.server, Postgres)
    url = postgres_server.server.url()
    async with await open_pool(url, service="edge-test") as pool:
        sleeping = asyncio.create_task(pool.execute("SELECT pg_sleep(60)"))
        await eventually(lambda: _is_sleeping(pool))
        postgres_server.kill()
        with pytest.raises(AWAY):
            await asyncio.wait_for(sleeping, 20)
        with pytest.raises(AWAY):
            await asyncio.wait_for(ping(pool), 20)
        with pytest.raises(DatabaseAway, match=r"://postgres:\*\*\*@") as away:
            await open_pool(url, service="edge-test", patience_seconds=0.0)
        waiting = asyncio.create_task(open_pool(url, service="edge-test"))
        await asyncio.to_thread(postgres_server.start)

        await eventually(lambda: _answers(pool))
        async with await asyncio.wait_for(waiting, 20) as late:
            assert await late.fetchval("SELECT 1") == 1
    assert postgres_server.server.superuser_password not in str(away.value)


async def test_a_database_without_tables_is_named_with_the_command_that_makes_them(pool: Pool, edge_pool: Pool) -> None:
    with pytest.raises(SchemaMissing, match="farmiq migrate"):
        await require_schema(pool)
    await require_schema(edge_pool)


async def _is_sleeping(pool: Pool) -> bool:
    query = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'"
    return bool(await pool.fetchval(query))


async def _answers(pool: Pool) -> bool:
    try:
        await ping(pool)
    except AWAY:
        return False
    return True

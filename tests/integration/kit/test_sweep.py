import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg

from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Work
from farmiq.kit.postgres import Pool
from farmiq.kit.sweep import sweep
from support.waiting import eventually

NOW = datetime(2026, 11, 16, tzinfo=UTC)


async def fill(pool: Pool, count: int) -> None:
    """One row a second, the newest of them now. Every tenth shares its time with the one before it."""
    await pool.execute("CREATE TABLE old (at timestamptz); CREATE INDEX ON old (at)")
    times = [NOW - timedelta(seconds=number - (number % 10 == 9)) for number in range(count)]
    await pool.executemany("INSERT INTO old VALUES ($1)", [(at,) for at in times])


async def left(pool: Pool) -> int:
    return int(await pool.fetchval("SELECT count(*) FROM old"))


async def test_steps_take_every_row_before_the_time_and_no_other(edge_pool: Pool) -> None:
    await fill(edge_pool, 100)
    before = NOW - timedelta(seconds=48)
    expected = int(await edge_pool.fetchval("SELECT count(*) FROM old WHERE at < $1", before))
    async with edge_pool.acquire() as connection:
        assert await sweep(Work(connection, Clock(), is_dry_run=True), "old", "at", before) == expected
        assert await left(edge_pool) == 100
        assert await sweep(Work(connection, Clock()), "old", "at", before, step_rows=7) == expected
    assert await left(edge_pool) == 100 - expected
    assert await edge_pool.fetchval("SELECT min(at) FROM old") == before


async def test_a_sweep_that_is_cut_has_kept_its_steps_and_the_next_one_goes_on(edge_pool: Pool) -> None:
    await fill(edge_pool, 100)

    async def has_made_two_steps() -> bool:
        return await left(edge_pool) <= 80

    async with edge_pool.acquire() as connection:
        sweeping = asyncio.create_task(
            sweep(Work(connection, Clock()), "old", "at", NOW + timedelta(seconds=1), step_rows=10)
        )
        await eventually(has_made_two_steps)
        sweeping.cancel()
        await asyncio.wait({sweeping})
        assert sweeping.cancelled()
        between = await left(edge_pool)
        assert 0 < between <= 80
        assert between % 10 == 0
        assert await sweep(Work(connection, Clock()), "old", "at", NOW + timedelta(seconds=1)) == between
    assert await left(edge_pool) == 0


async def test_a_row_that_somebody_holds_is_passed_over(edge_pool: Pool, edge_url: str) -> None:
    await fill(edge_pool, 20)
    holder = await asyncpg.connect(edge_url)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("SELECT FROM old WHERE at = $1 FOR UPDATE", NOW - timedelta(seconds=5))
    async with edge_pool.acquire() as connection:
        assert await sweep(Work(connection, Clock()), "old", "at", NOW + timedelta(seconds=1)) == 19
        await transaction.rollback()
        assert await sweep(Work(connection, Clock()), "old", "at", NOW + timedelta(seconds=1)) == 1
    await holder.close()

"""Many messages in one transaction: again while the database is away, and alone when one spoils the rest."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import asyncpg
import pytest

from farmiq.kit.errors import Rejected
from farmiq.kit.micro_batch import together_or_alone, until_stored
from farmiq.kit.postgres import Pool, open_pool
from support.postgres import NewDatabase

Record = tuple[object, object]


@pytest.fixture
async def pool(new_database: NewDatabase) -> AsyncIterator[Pool]:
    async with await open_pool(new_database(), service="test") as pool:
        await pool.execute("CREATE TABLE reading (seq int CHECK (seq <> 13), note text)")
        yield pool


async def store(pool: Pool, records: Sequence[Record]) -> list[int]:
    async def commit(items: Sequence[Record]) -> str:
        async with pool.acquire() as connection, connection.transaction():
            await connection.copy_records_to_table("reading", records=items)
            if ("reject",) in [item[1:] for item in items]:
                raise Rejected("never good")
        return "stored"

    async def set_aside(item: Record, error: Exception) -> str:
        assert str(error)
        return "set aside"

    answers = await together_or_alone(records, commit, set_aside)
    return [index for index, answer in enumerate(answers) if answer == "set aside"]


@pytest.mark.parametrize(
    "poison",
    [(13, "x"), (1 << 40, "x"), (7, "a\0b"), (7, "\ud800"), (7, "reject")],
    ids=["constraint", "overflow", "nul", "surrogate", "rejected"],
)
async def test_one_message_that_does_not_fit_is_set_aside_and_the_others_are_stored(pool: Pool, poison: Record) -> None:
    assert await store(pool, [(1, "one"), poison, (3, "three")]) == [1]

    assert [row["seq"] for row in await pool.fetch("SELECT seq FROM reading ORDER BY seq")] == [1, 3]


async def test_good_messages_are_one_transaction(pool: Pool) -> None:
    assert await store(pool, [(1, "one"), (2, "two")]) == []

    assert await pool.fetchval("SELECT count(DISTINCT xmin::text) FROM reading") == 1


async def test_a_database_that_is_away_costs_no_message_and_is_not_set_aside(pool: Pool) -> None:
    async def commit(_items: Sequence[Record]) -> str:
        raise asyncpg.CannotConnectNowError("the database system is starting up")

    async def set_aside(_item: Record, _error: Exception) -> str:
        raise AssertionError("nothing is wrong with the message")

    with pytest.raises(asyncpg.CannotConnectNowError):
        await together_or_alone([(1, "one")], commit, set_aside)


BROKEN_TRIGGER = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON reading FOR EACH ROW EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize(
    ("trouble", "error"), [("DROP TABLE reading", asyncpg.UndefinedTableError), (BROKEN_TRIGGER, asyncpg.RaiseError)]
)
async def test_a_database_that_is_not_as_it_should_be_costs_no_good_message(
    pool: Pool, trouble: str, error: type[Exception]
) -> None:
    await pool.execute(trouble)
    with pytest.raises(error):
        await store(pool, [(1, "one"), (2, "two")])


async def test_work_is_tried_until_the_database_takes_it_and_other_errors_are_raised() -> None:
    tries = 0

    async def work() -> str:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionRefusedError("no database")
        return "stored"

    async def bug() -> None:
        raise KeyError("a bug")

    assert await asyncio.wait_for(until_stored(work), 10) == "stored"
    assert tries == 3
    with pytest.raises(KeyError):
        await until_stored(bug)

"""What PostgreSQL does for a claim, a promotion and a rescue, read from its own plans: the batch decides what it costs, and
nothing else does."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from farmiq.kit.postgres import Connection, Pool, open_pool
from farmiq.outbox.backlog import next_due_seconds
from farmiq.outbox.claim import Floor, claim, waiting_tenants
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.fencing import still_ours
from farmiq.outbox.floors import Floors
from farmiq.outbox.recovery import promote, rescue
from farmiq.outbox.renew import renew
from farmiq.outbox.retire import START, Retention, retire
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import Failure, RetryPolicy, acked, failed
from farmiq.stack.postgres import Postgres
from support.databases import database_copy
from support.waiting import eventually, run_apart

pytestmark = pytest.mark.timeout(600)

BATCH = 100
BACKED_OFF = 100_000
DEAD = 4_000
million = pytest.mark.long(
    reason="a backlog ten times as large: the plans and what they read are those of 100 thousand rows"
)
PENDING = (10_000, 100_000, pytest.param(1_000_000, marks=million))
ROWS_READ_MAX = 3 * BATCH
"""Found, locked, updated: each row is read two times, and there is room for one more."""
BLOCKS_MAX = 25 * BATCH
"""A claim moves a row between the table's indexes: about a dozen pages for each row, of which none depends on the backlog."""

THROUGH_AN_INDEX = {"Index Scan", "Index Only Scan", "Bitmap Heap Scan", "Tid Scan"}

FILL = """
INSERT INTO sync_outbox (id, tenant_id, event_type, occurred_at, payload_json, parked, next_attempt_at)
SELECT gen_random_uuid(), 'demo', 'test.event', now() + n * interval '1 ms', '{"n": 1}', $2, now() + $3
FROM generate_series(1, $1::int) AS n
"""
SCATTERED = f"{FILL} ORDER BY random()"

DUE = """
UPDATE sync_outbox SET next_attempt_at = now() + $2::interval WHERE id IN (
  SELECT id FROM sync_outbox WHERE status = 'pending' AND parked ORDER BY next_attempt_at LIMIT $1)
"""

Statement = tuple[str, tuple[Any, ...]]
Ask = Callable[[Connection], Awaitable[object]]
Change = Callable[[Connection, Sequence[ClaimedEvent]], Awaitable[object]]


@pytest.fixture(scope="module")
def module_url(_postgres: Postgres, run_folder: Path) -> Iterator[str]:
    yield from database_copy(_postgres, run_folder, "edge")


@pytest.fixture(scope="module", params=PENDING, ids=lambda rows: f"{rows} pending")
def backlog_url(request: pytest.FixtureRequest, module_url: str) -> str:
    """So many rows that can be claimed, and before them those that failed and wait. Tests leave them as they are."""
    run_apart(lambda: _fill_up_to(module_url, request.param))
    return module_url


async def _fill_up_to(url: str, pending: int) -> None:
    async with await open_pool(url, service="test") as pool:
        there = await pool.fetchval("SELECT count(*) FROM sync_outbox")
        if not there:
            await pool.execute(FILL, BACKED_OFF, True, timedelta(hours=1), timeout=300)
            there = BACKED_OFF
        await pool.execute(FILL, BACKED_OFF + pending - there, False, timedelta(0), timeout=300)
        await pool.execute("ANALYZE sync_outbox")


@pytest_asyncio.fixture
async def backlog(backlog_url: str) -> AsyncIterator[Pool]:
    async with await open_pool(backlog_url, service="test") as pool:
        yield pool


async def take(connection: Connection, limit: int = BATCH, floor: Floor | None = None) -> object:
    return await claim(connection, "demo", instance_id="a", limit=limit, lease_seconds=120, floor=floor)


async def release_expired(connection: Connection) -> object:
    return await rescue(connection, RetryPolicy(), random.Random(1), limit=BATCH)


async def statements_of(pool: Pool, ask: Ask) -> list[Statement]:
    """What the library sends for a call, word for word. What the call changed is undone."""
    heard: list[Statement] = []
    async with pool.acquire() as connection:
        with connection.query_logger(lambda query: heard.append((query.query, tuple(query.args)))):
            work = connection.transaction()
            await work.start()
            await ask(connection)
            await work.rollback()

        async def has_heard_the_end() -> bool:
            return bool(heard) and heard[-1][0].startswith("ROLLBACK")

        await eventually(has_heard_the_end)
    return [statement for statement in heard if "sync_outbox" in statement[0]]


async def plan_of(connection: Connection, statement: Statement, mode: str = "auto") -> dict[str, Any]:
    """The plan with what really happened. A generic plan is what a long-lived connection may come to use."""
    query, arguments = statement
    work = connection.transaction()
    await work.start()
    await connection.execute(f"SET LOCAL plan_cache_mode = {mode}")
    await connection.execute(f"PREPARE asked AS {query}")
    literals = ", ".join(literal(argument) for argument in arguments)
    given = f"({literals})" if arguments else ""
    told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked{given}")
    await connection.execute("DEALLOCATE asked")
    await work.rollback()
    plan: dict[str, Any] = msgspec.json.decode(told)[0]["Plan"]
    return plan


def literal(argument: Any) -> str:
    if isinstance(argument, list):
        return "'{" + ",".join("NULL" if item is None else f'"{item}"' for item in argument) + "}'"
    return "NULL" if argument is None else f"'{argument}'"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from nodes(below)


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in nodes(plan) if node.get("Relation Name") == "sync_outbox" and "Scan" in node["Node Type"]]


def rows_read(plan: dict[str, Any]) -> float:
    names = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    return float(sum(node["Actual Loops"] * sum(node.get(name, 0) for name in names) for node in scans(plan)))


def blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def assert_bounded(plan: dict[str, Any], rows_max: float = ROWS_READ_MAX, blocks_max: float = BLOCKS_MAX) -> None:
    assert scans(plan), "the statement looks at the outbox"
    assert {node["Node Type"] for node in scans(plan)} <= THROUGH_AN_INDEX, plan
    assert not [node for node in nodes(plan) if node["Node Type"] == "Sort"], "the index is in the order of the claim"
    assert rows_read(plan) <= rows_max, plan
    assert blocks(plan) <= blocks_max, plan


@asynccontextmanager
async def old_snapshot(pool: Pool) -> AsyncIterator[None]:
    """Until the end of the block nothing that dies can be vacuumed: a report, a backup, a forgotten session."""
    async with pool.acquire() as other, other.transaction(isolation="repeatable_read", readonly=True):
        assert await other.fetchval("SELECT count(*) FROM sync_state") == 0
        yield


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_a_claim_reads_its_batch_whatever_the_backlog_and_whoever_waits_before_it(
    backlog: Pool, mode: str
) -> None:
    (statement,) = await statements_of(backlog, take)
    async with backlog.acquire() as connection:
        plan = await plan_of(connection, statement, mode)
    assert plan["Actual Rows"] == BATCH
    assert_bounded(plan)


async def test_a_claim_with_statistics_of_an_empty_table_reads_its_batch_too(edge_url: str) -> None:
    async with await open_pool(edge_url, service="test") as pool:
        await pool.execute("ANALYZE sync_outbox")
        await pool.execute(FILL, 10_000, False, timedelta(0))
        (statement,) = await statements_of(pool, take)
        async with pool.acquire() as connection:
            plan = await plan_of(connection, statement)
    assert plan["Actual Rows"] == BATCH
    assert_bounded(plan)


async def test_the_round_before_a_claim_reads_neither_the_backlog_nor_what_waits(backlog: Pool) -> None:
    """Whose turn it is, what is due, whose lease is over: asked before every batch."""
    asked: list[tuple[Ask, int]] = [
        (waiting_tenants, 10),
        (next_due_seconds, 10),
        (lambda connection: promote(connection, limit=BATCH), 10),
        (release_expired, 10),
    ]
    for ask, rows_max in asked:
        for statement in await statements_of(backlog, ask):
            async with backlog.acquire() as connection:
                assert_bounded(await plan_of(connection, statement), rows_max, blocks_max=100)


@pytest.mark.parametrize("ahead_days", [0, 365], ids=["due", "by a clock ahead"])
async def test_a_promotion_costs_what_it_promotes(backlog: Pool, ahead_days: int) -> None:
    (statement,) = await statements_of(backlog, lambda connection: promote(connection, limit=BATCH))
    async with backlog.acquire() as connection:
        work = connection.transaction()
        await work.start()
        await connection.execute(DUE, 10 * BATCH, timedelta(days=ahead_days))
        plan = await plan_of(connection, statement)
        await work.rollback()
    assert sorted(node["Actual Rows"] for node in nodes(plan) if node["Node Type"] == "Limit") == [0, BATCH]
    assert_bounded(plan)


async def test_a_rescue_reads_what_is_in_flight_and_not_the_backlog(backlog: Pool) -> None:
    (looking, *_) = await statements_of(backlog, release_expired)
    async with backlog.acquire() as connection:
        work = connection.transaction()
        await work.start()
        await take(connection, 3 * BATCH)
        await connection.execute("UPDATE sync_outbox SET lease_expires_at = now() WHERE status = 'claimed'")
        plan = await plan_of(connection, looking)
        await work.rollback()
    assert plan["Actual Rows"] == BATCH
    assert_bounded(plan)


async def ack(connection: Connection, events: Sequence[ClaimedEvent]) -> object:
    return await settle(connection, [acked(event) for event in events])


async def fail(connection: Connection, events: Sequence[ClaimedEvent]) -> object:
    why = Failure("HTTP_500", "boom")
    return await settle(connection, [failed(event, why, RetryPolicy(), 0.5) for event in events])


async def keep(connection: Connection, events: Sequence[ClaimedEvent]) -> object:
    return await renew(connection, events, lease_seconds=120)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("change", [ack, fail, keep, still_ours], ids=["ack", "fail", "renew", "check"])
async def test_what_is_done_with_a_claim_costs_the_claim_however_much_others_have_in_flight(
    backlog: Pool, change: Change, mode: str
) -> None:
    """With the plan of a new connection, and with that of an old one, which knows neither the batch nor what is in flight."""

    async def take_and_change(connection: Connection) -> object:
        events = await claim(connection, "demo", instance_id="a", limit=5 * BATCH, lease_seconds=120)
        return await change(connection, events[:BATCH])

    (taking, changing) = await statements_of(backlog, take_and_change)
    async with backlog.acquire() as connection:
        work = connection.transaction()
        await work.start()
        if change is fail:
            await connection.execute("SET LOCAL enable_seqscan = off")  # as the library does
        await connection.fetch(taking[0], *taking[1])
        plan = await plan_of(connection, changing, mode)
        await work.rollback()
    by_place = [node for node in scans(plan) if node["Node Type"] == "Tid Scan"]
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in by_place) == BATCH
    assert_bounded(plan)
    assert sum(node.get("Rows Removed by Join Filter", 0) for node in nodes(plan)) <= ROWS_READ_MAX


async def test_retirement_reads_a_page_at_a_time(backlog: Pool) -> None:
    (statement,) = await statements_of(
        backlog, lambda connection: retire(connection, START, Retention(1, 1), limit=BATCH)
    )
    async with backlog.acquire() as connection:
        plan = await plan_of(connection, statement)
    assert {node["Node Type"] for node in scans(plan)} <= THROUGH_AN_INDEX
    assert rows_read(plan) <= ROWS_READ_MAX


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_under_an_old_snapshot_a_claim_goes_on_where_the_last_one_ended(edge_url: str, mode: str) -> None:
    """Nothing that dies can be removed then, from the index neither. A claim from the head passes over every dead entry, each a
    look at a page in memory; one with a floor reads its batch."""
    floors = Floors()
    async with await open_pool(edge_url, service="test") as pool, pool.acquire() as connection:
        await connection.execute(SCATTERED, 20_000, False, timedelta(0))
        await connection.execute("VACUUM ANALYZE sync_outbox")
        async with old_snapshot(pool):
            for _ in range(DEAD // BATCH):
                events = await claim(connection, "demo", instance_id="a", limit=BATCH, lease_seconds=120)
                await settle(connection, [acked(event) for event in events])
            floors.claimed("demo", events)
            (floor,) = floors.of("demo")
            await connection.execute("VACUUM sync_outbox")
            (from_head,) = await statements_of(pool, take)
            (from_floor,) = await statements_of(pool, partial(take, floor=floor))
            head, held = await plan_of(connection, from_head, mode), await plan_of(connection, from_floor, mode)
        assert held["Actual Rows"] == head["Actual Rows"] == BATCH
        assert_bounded(held)
        assert blocks(head) > blocks(held) + DEAD / 2, "the dead entries were there"
        await connection.execute("VACUUM sync_outbox")
        assert_bounded(await plan_of(connection, from_head, mode))


async def test_a_question_about_a_time_in_the_past_reads_that_part_of_the_table(edge_url: str) -> None:
    """What the document's index on (tenant_id, occurred_at DESC) is for."""
    async with await open_pool(edge_url, service="test") as pool, pool.acquire() as connection:
        await connection.execute(FILL, 20_000, False, timedelta(0))
        await connection.execute("VACUUM ANALYZE sync_outbox")
        asked = (
            "SELECT event_type, status FROM sync_outbox WHERE tenant_id = 'demo'"
            " AND occurred_at >= now() + interval '12 s' AND occurred_at < now() + interval '13 s'"
        )
        plan = await plan_of(connection, (asked, ()))
        whole = await connection.fetchval("SELECT pg_relation_size('sync_outbox') / 8192")
    assert {node["Node Type"] for node in scans(plan)} <= THROUGH_AN_INDEX
    assert blocks(plan) < whole / 4

"""An answer costs what it holds, not what the table holds: no scan of a table, and few rows read beside those answered.

Each statement is planned without looking at its values, as PostgreSQL does once a connection has asked it a few times.
"""

import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import asyncpg
import msgspec
import pytest
import pytest_asyncio

from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries import aggregates, completeness, content_blocks, queries, spans
from farmiq.timeseries.paging import AfterBucket

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + timedelta(days=30)
CHANNELS = 5
STREAM = UUID("018f0000-0000-7000-8000-000000000000")
NODE: dict[str, Any] = {"tenant_id": "demo", "device_id": "node-3"}

FILL_AGGREGATES = """
    INSERT INTO telemetry_agg (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, bucket_end_at,
                               sum_value, count, min_value, max_value)
    SELECT 'demo', 'node-' || device, 'm' || metric, 's' || sensor, 'C', $1, start_at, start_at + $2, 60, 60, 1, 1
      FROM generate_series(1, 5) AS device, generate_series(1, 4) AS metric, generate_series(1, 2) AS sensor,
           generate_series($3::timestamptz, $4::timestamptz - interval '1 second', $2) AS start_at
"""
FILL_RAW = """
    INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, sensor,
                               stream_id, seq)
    SELECT ('018f0000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, 'demo', 'farm', 'barn',
           'node-' || (number / 5) % 5, $1::timestamptz + make_interval(secs => 30 * (number / 25)), 'm' || number % 5,
           number, 's1', $2, number
      FROM generate_series(1, 40000) AS number
"""


class Watched:
    """A connection that also tells how each question was answered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plans: list[dict[str, Any]] = []

    async def fetch(self, query: str, *values: Any) -> list[asyncpg.Record]:
        await self._explain(query, values)
        return await self._connection.fetch(query, *values)

    async def fetchrow(self, query: str, *values: Any) -> asyncpg.Record | None:
        await self._explain(query, values)
        return await self._connection.fetchrow(query, *values)

    async def _explain(self, query: str, values: tuple[Any, ...]) -> None:
        await self._connection.execute(f"PREPARE asked AS {query}")
        given = ", ".join(map(_literal, values))
        (row,) = await self._connection.fetch(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE asked({given})")
        await self._connection.execute("DEALLOCATE asked")
        self.plans.append(msgspec.json.decode(row[0])[0]["Plan"])

    def rows_read(self) -> int:
        tables = [node for plan in self.plans for node in _nodes(plan) if "Relation Name" in node]
        scans = [node for node in tables if node["Relation Name"].startswith("telemetry_")]
        assert scans
        scanned = [node["Relation Name"] for node in scans if node["Node Type"] == "Seq Scan" and _rows(node) > 0]
        assert scanned == [], "whole tables were read"
        return sum(map(_rows, scans))


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case datetime():
            return f"'{value.isoformat()}'"
        case timedelta():
            return f"'{value.total_seconds()} seconds'"
        case list():
            return "ARRAY[" + ", ".join(map(_literal, value)) + "]::uuid[]"
    assert re.fullmatch(r"[\w.-]*", str(value))
    return f"'{value}'"


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


def _rows(node: dict[str, Any]) -> int:
    read = sum(node.get(name, 0) for name in ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck"))
    return int(read * node["Actual Loops"] + 0.5)


@pytest_asyncio.fixture
async def filled(edge_pool: Pool) -> AsyncIterator[Connection]:
    async with edge_pool.acquire() as connection:
        for month in (START, END):
            await connection.execute("SELECT ensure_month_partition('telemetry_raw', $1)", month.date())
        for window in aggregates.WINDOWS:
            first = END - timedelta(hours=6) if window == "1m" else START
            await connection.execute(FILL_AGGREGATES, window, aggregates.width_of(window), first, END)
        await connection.execute(FILL_RAW, START, STREAM)
        await connection.execute("INSERT INTO streams (stream_id, tenant_id, farm_id, barn_id, device_id, received)"
                                 " VALUES ($1, 'demo', 'farm', 'barn', 'node-3', '{[1,100),[200,40001)}')", STREAM)  # fmt: skip
        await connection.execute("VACUUM ANALYZE telemetry_raw, telemetry_agg, streams")
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        yield connection
        await connection.execute("RESET plan_cache_mode")


@pytest_asyncio.fixture(params=["owner", "reader"])
async def watched(filled: Connection, request: pytest.FixtureRequest) -> AsyncIterator[Watched]:
    """As the owner of the tables, and as requests read: behind row-level security."""
    if request.param == "owner":
        yield Watched(filled)
        return
    async with filled.transaction(isolation="repeatable_read", readonly=True):
        assert await filled.fetchval("SELECT read_as('demo')")
        yield Watched(filled)


async def ask_buckets(watched: Watched, **how: Any) -> list[aggregates.BucketRow]:
    question: dict[str, Any] = {
        "metric": "m2",
        "window": "1h",
        "since": START,
        "until": END,
        "limit": 2000,
        **NODE,
        **how,
    }
    return await aggregates.buckets(cast("Connection", watched), **question)


async def ask_readings(watched: Watched, **how: Any) -> queries.Readings:
    return await queries.readings(cast("Connection", watched), **{**NODE, "since": START, "until": END, **how})


async def test_a_month_of_one_metric_reads_the_buckets_it_draws_and_naming_metrics_reads_fewer(
    watched: Watched,
) -> None:
    for how, drawn in (({}, 2 * 720), ({"sensor": "s2"}, 720), ({"is_merged": True}, 720)):
        watched.plans.clear()
        assert len(await ask_buckets(watched, **how)) == drawn
        assert watched.rows_read() <= 2 * 720, how
    last = (await ask_buckets(watched, limit=1000))[-1]
    after = AfterBucket(last.bucket_start_at, last.sensor or "", last.unit)
    watched.plans.clear()
    assert len(await ask_buckets(watched, limit=100, after=after)) == 100
    assert watched.rows_read() <= 110, "a late page"
    await expect_series_to_read_a_few_rows_of_each(watched)


async def expect_series_to_read_a_few_rows_of_each(watched: Watched) -> None:
    for who, series in (({"tenant_id": "demo"}, 5 * 4 * 2), (NODE, 4 * 2)):
        watched.plans.clear()
        rows = await aggregates.series(cast("Connection", watched), **who, limit=1000)
        assert len(rows) == series
        assert watched.rows_read() <= 4 * series, who


async def test_the_samples_of_a_block_are_read_without_those_of_its_neighbours(watched: Watched) -> None:
    block = await content_blocks.samples(
        cast("Connection", watched), tenant_id="demo", stream_id=STREAM, span=(4096, 8192)
    )
    assert len(block.seq) == 4096
    assert watched.rows_read() == 4096


async def test_a_page_of_samples_or_gaps_reads_what_lies_in_it(watched: Watched) -> None:
    before = None
    for _ in range(3):
        watched.plans.clear()
        page = await ask_readings(watched, before=before, limit=200)
        assert len(page.rows) == 200
        assert watched.rows_read() <= 200 + 2 * CHANNELS, "also on a late page"
        before = page.stopped_at
    watched.plans.clear()
    assert len((await ask_readings(watched, metric="m2", limit=200)).rows) == 200
    assert watched.rows_read() <= 200 * CHANNELS + 4 * CHANNELS
    watched.plans.clear()
    page = await ask_readings(watched, metric="none", limit=10, scanned_rows_max=500)
    assert (page.rows, page.stopped_at is None) == ([], False)
    assert watched.rows_read() <= 2 * (500 + 2 * CHANNELS), "a metric that is not there costs what one page may"
    await expect_gaps_to_read_one_row_beside_each(watched)


async def test_an_hour_of_a_device_is_read_by_index_from_its_month_alone(watched: Watched) -> None:
    page = await ask_readings(
        watched, since=END - timedelta(days=29, hours=20), until=END - timedelta(days=29, hours=19), limit=1000
    )
    assert len(page.rows) == 120 * CHANNELS
    scans = [node for plan in watched.plans for node in _nodes(plan) if "Relation Name" in node]
    assert {node["Relation Name"] for node in scans} == {"telemetry_raw_2026_11"}
    assert {node["Node Type"] for node in scans} == {"Index Scan"}
    assert all("occurred_at >=" in node["Index Cond"] for node in scans)
    assert watched.rows_read() <= 121 * CHANNELS


async def expect_gaps_to_read_one_row_beside_each(watched: Watched) -> None:
    watched.plans.clear()
    found = await completeness.gaps(cast("Connection", watched), tenant_id="demo", stream_id=STREAM, limit=10)
    assert found is not None
    ((gap,),) = (found[1],)
    assert (gap.first_seq, gap.last_seq) == (100, 199)
    assert None not in (gap.after_ts, gap.before_ts)
    assert watched.rows_read() <= 4


async def test_what_came_late_is_found_by_one_step_for_each_part_of_the_range(watched: Watched) -> None:
    """The samples of the first 13 hours came weeks later: nine parts of 86 minutes and a piece of a tenth."""
    part = (END - START) / spans.PROBES
    connection = cast("Connection", watched)
    late = await spans.late_parts(connection, "demo", "node-3", START, part, timedelta(minutes=1))
    assert [number for number, _ in late] == list(range(10))
    assert watched.rows_read() <= spans.PROBES

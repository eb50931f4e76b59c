"""What row-level security costs a query: as the owner of the tables, and as the role that sees named tenants only.

    .venv/bin/python benchmarks/measure_row_security.py

Both in turn, each on a connection of its own, over the same rows: a page of a device's readings, and a count over all rows of a
tenant, which shows what the comparison costs each row. `docs/decisions/0021-row-level-security.md` holds what this prints.
"""

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edge import Edge
from farmiq.kit.postgres import Connection, Pool, open_pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import queries
from harness import quiet_logs, scratch

START = datetime(2026, 11, 1, tzinfo=UTC)
ROUNDS = {"a page of 100 readings": 1000, "a count of 250,000 rows": 30}

FILL = """
INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value)
SELECT gen_random_uuid(), 'tenant-' || number % 2, 'farm', 'barn', 'node-' || number / 2 % 10,
       $1::timestamptz + make_interval(secs => number), 'temperature', number
  FROM generate_series(1, 500000) AS number
"""

Open = Callable[[Pool], AbstractAsyncContextManager[Connection]]


@asynccontextmanager
async def as_owner(pool: Pool) -> AsyncIterator[Connection]:
    async with pool.acquire() as connection:
        yield connection


def as_reader(pool: Pool) -> AbstractAsyncContextManager[Connection]:
    return read_as(pool, "tenant-1")


async def page(connection: Connection) -> None:
    found = await queries.readings(
        connection,
        tenant_id="tenant-1",
        device_id="node-3",
        since=START,
        until=START + timedelta(days=2),
        limit=100,
    )
    assert len(found.rows) == 100  # noqa: S101 - a measurement of nothing would be quick


async def count(connection: Connection) -> None:
    assert await connection.fetchval("SELECT count(*) FROM telemetry_raw WHERE tenant_id = $1", "tenant-1") == 250_000  # noqa: S101 - as above


async def milliseconds(pool: Pool, opened: Open, query: Callable[[Connection], object]) -> float:
    began = time.perf_counter()
    async with opened(pool) as connection:
        await query(connection)  # type: ignore[misc]  # both are coroutines
    return (time.perf_counter() - began) * 1000


async def measure(url: str) -> None:
    async with (
        await open_pool(url, service="owner", size_max=1) as pool,
        await open_pool(url, service="reader", size_max=1) as readers,
    ):
        await pool.execute("SELECT ensure_month_partition('telemetry_raw', $1)", START.date())
        await pool.execute(FILL, START)
        await pool.execute("VACUUM ANALYZE telemetry_raw")
        for (name, rounds), query in zip(ROUNDS.items(), (page, count), strict=True):
            times: dict[str, list[float]] = {"owner": [], "reader": []}
            for _ in range(rounds):
                times["owner"].append(await milliseconds(pool, as_owner, query))
                times["reader"].append(await milliseconds(readers, as_reader, query))
            p50 = {who: statistics.median(taken[rounds // 10 :]) for who, taken in times.items()}
            print(f"{name}: p50 {p50['owner']:.2f} ms as owner, {p50['reader']:.2f} ms behind row-level security")


async def main() -> None:
    quiet_logs()
    with scratch(Path.cwd()) as folder:
        async with Edge(folder).database() as url:
            await measure(url)


if __name__ == "__main__":
    asyncio.run(main())

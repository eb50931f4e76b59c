"""A page of sessions or events costs what it holds, whatever was asked for: no scan of a table, and few rows read."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
import pytest_asyncio

from farmiq.cloud.telemetry_service import event_routes, session_queries
from farmiq.cloud.telemetry_service.session_queries import SessionFilter, SessionQuestion
from farmiq.kit.postgres import Connection, Pool
from support.telemetry import NOW

ROWS = 20_000
LIMIT = 50
SINCE = NOW - timedelta(days=400)

FILL_SESSIONS = """
    INSERT INTO weight_sessions (tenant_id, id, farm_id, barn_id, device_id, batch_id, status, first_event_at)
    SELECT 'demo', gen_random_uuid(), 'farm-' || n % 40, 'barn-' || n % 80, 'station-' || n % 160, 'batch-' || n % 200,
           CASE n % 50 WHEN 0 THEN 'cancelled' WHEN 1 THEN 'created' ELSE 'finalized' END,
           $1::timestamptz - n * interval '1 minute'
      FROM generate_series(1, $2::int) AS n
"""
FILL_EVENTS = """
    INSERT INTO device_events (tenant_id, event_id, event_type, device_id, occurred_at, payload, received_at)
    SELECT 'demo', gen_random_uuid(), 'type.' || n % 100, 'door-' || n % 100, $1::timestamptz - n * interval '1 minute', '{}', $1
      FROM generate_series(1, $2::int) AS n
"""


class Explained:
    """A connection that tells how each question would be answered, with its values unknown, and asks it too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plans: list[str] = []

    async def fetch(self, query: str, *values: Any) -> Any:
        lines = await self._connection.fetch(f"EXPLAIN (ANALYZE, TIMING OFF) {query}", *values)
        self.plans.append("\n".join(line[0] for line in lines))
        return await self._connection.fetch(query, *values)


@pytest_asyncio.fixture
async def explained(cloud_pool: Pool) -> AsyncIterator[Explained]:
    await cloud_pool.execute(FILL_SESSIONS, NOW, ROWS)
    await cloud_pool.execute(FILL_EVENTS, NOW, ROWS)
    await cloud_pool.execute(
        "ANALYZE weight_sessions, device_events, recorded_weights, captured_images, inference_results"
    )
    async with cloud_pool.acquire() as connection:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        yield Explained(connection)


def check(plan: str) -> None:
    big = r"(?:weight_sessions|device_events_\d)"
    assert not re.search(rf"Seq Scan on {big}", plan), plan
    read = [float(rows) for rows in re.findall(rf"Scan[^\n]* on {big}[^\n]*actual rows=([\d.]+)", plan)]
    assert read, plan
    assert max(read) <= LIMIT * 2, plan


@pytest.mark.parametrize(
    "only",
    [
        SessionFilter(),
        SessionFilter(farm_id="farm-7"),
        SessionFilter(barn_id="barn-7"),
        SessionFilter(device_id="station-7"),
        SessionFilter(batch_id="batch-7"),
        SessionFilter(status="cancelled"),
    ],
    ids=lambda only: next((name for name in only.__struct_fields__ if getattr(only, name)), "everything"),
)
async def test_a_page_of_sessions(explained: Explained, only: SessionFilter) -> None:
    asked = SessionQuestion("demo", SINCE, NOW, only)
    found = await session_queries.sessions(cast("Connection", explained), asked, limit=LIMIT)
    given = {name: value for name, value in msgspec.structs.asdict(only).items() if value}
    assert len(found) == LIMIT
    assert all(getattr(row, name) == value for row in found for name, value in given.items())
    check(explained.plans[0])


@pytest.mark.parametrize("only", [{}, {"device_id": "door-7"}, {"event_type": "type.7"}])
async def test_a_page_of_events(explained: Explained, only: dict[str, str | None]) -> None:
    before = event_routes.AfterEvent(NOW, event_routes.SMALLEST_ID)
    found = await event_routes.events_of(cast("Connection", explained), "demo", SINCE, before, only, LIMIT)
    assert len(found) == LIMIT
    assert all(getattr(row, name) == value for row in found for name, value in only.items())
    check(explained.plans[0])

"""A tenant in a few numbers, at both tiers, and how much it costs with many devices."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg

from farmiq.contracts.telemetry import TelemetryLoss, pack_of
from farmiq.contracts.timestamps import from_us
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.timeseries.admission import admit_batches, admit_readings, declare_lost
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin
from farmiq.timeseries.summary import Lost, Summary, summarize
from support.query_api import QueryApi, query_api
from support.telemetry import ELSEWHERE, HERE, NOW, START_US, batch_of

SINCE, UNTIL = from_us(START_US - 60_000_000), from_us(START_US + 7_200_000_000)
NODE_2 = Origin("demo", "farm-1", "barn-2", "node-2")
STREAM = uuid4()


def loss(first: int, last: int) -> TelemetryLoss:
    return TelemetryLoss(
        stream_id=STREAM, first_seq=first, last_seq=last, count=last - first + 1, reason="spool_cap", dropped_at=NOW
    )


async def fill(pool: Pool) -> None:
    """1001..2000 are missing; 3001..4000 were declared lost twice, and 3501..3600 of them turned up after all."""
    batch = batch_of(STREAM, 1, 5000)
    runs = ((1, 1000), (2001, 3000), (4001, 5000))
    async with pool.acquire() as connection, connection.transaction():
        await admit_batches(connection, [StreamBatch(HERE, pack_of(batch, first, last)) for first, last in runs], NOW)
        await declare_lost(connection, HERE, new_id(), loss(3001, 4000))
        await declare_lost(connection, HERE, new_id(), loss(3001, 4000))
        await admit_batches(connection, [StreamBatch(HERE, pack_of(batch, 3501, 3600))], NOW)
        await admit_readings(connection, [SingleReading(NODE_2, new_id(), SINCE, "co2", 1.0, "ppm")], NOW)
        await admit_readings(
            connection, [SingleReading(NODE_2, new_id(), UNTIL + timedelta(hours=1), "co2", 2.0, "ppm")], NOW
        )
        await admit_batches(connection, [StreamBatch(ELSEWHERE, batch_of(uuid4(), 5, 9))], NOW)


async def told(pool: Pool, since: datetime = SINCE, until: datetime = UNTIL, tenant_id: str = "demo") -> Summary:
    async with pool.acquire() as connection:
        return await summarize(connection, tenant_id=tenant_id, since=since, until=until, limit=100)


async def test_what_was_measured_is_stored_or_missing_or_lost_and_nothing_twice(any_pool: Pool) -> None:
    await fill(any_pool)
    found = await told(any_pool)
    assert (found.stored, found.missing) == (3101, 1000)


async def test_a_loss_counts_when_it_was_recorded_and_once_however_often_it_was_told(any_pool: Pool) -> None:
    await fill(any_pool)
    now = datetime.now(UTC)
    found = (await told(any_pool, now - timedelta(days=1), now + timedelta(minutes=1))).lost
    assert found is not None
    assert (found.samples, found.losses, found.devices) == (900, 2, 1)
    assert found.latest is not None
    assert (found.latest.device_id, found.latest.count, found.latest.reason) == ("node-1", 1000, "spool_cap")
    before = (await told(any_pool, now - timedelta(days=3), now - timedelta(days=2))).lost
    assert before == Lost(0, 0, 0, None)


async def test_another_tenant_and_a_tenant_without_anything_are_told_apart(any_pool: Pool) -> None:
    await fill(any_pool)
    other = await told(any_pool, tenant_id="other")
    assert (other.stored, other.missing, other.lost) == (5, 4, Lost(0, 0, 0, None))
    nobody = await told(any_pool, tenant_id="nobody")
    assert (nobody.stored, nobody.missing, nobody.lost, nobody.next) == (0, 0, Lost(0, 0, 0, None), None)


async def test_pages_add_up_to_the_whole_and_only_the_first_tells_of_the_tenant(any_pool: Pool) -> None:
    await fill(any_pool)
    async with any_pool.acquire() as connection:
        asked: dict[str, Any] = {"tenant_id": "demo", "since": SINCE, "until": UNTIL, "limit": 1}
        first = await summarize(connection, **asked)
        second = await summarize(connection, **asked, after=first.next or "")
        last = await summarize(connection, **asked, after=second.next or "")
    assert [page.stored for page in (first, second, last)] == [3100, 1, 0]
    assert [page.next for page in (first, second, last)] == ["node-1", "node-2", None]
    assert [page.missing for page in (first, second, last)] == [1000, None, None]


async def test_the_route_answers_for_24_hours_and_refuses_more_than_31_days(edge_url: str, edge_pool: Pool) -> None:
    await fill(edge_pool)
    async with query_api(edge_url) as api:
        await assert_answers(api)
        status, answer = await api.ask("/api/v1/telemetry/summary", token="somebody-else", tenant_id="demo")
        assert (status, answer["error"]["code"]) == (401, "unauthorized")


async def assert_answers(api: QueryApi) -> None:
    asked = {"tenant_id": "demo", "from": SINCE.isoformat(), "to": UNTIL.isoformat()}
    assert (await api.get("/api/v1/telemetry/summary", **asked))["stored"] == 3101
    today = await api.get("/api/v1/telemetry/summary", tenant_id="demo")
    assert (today["lost"]["samples"], today["lost"]["latest"]["device_id"]) == (900, "node-1")
    asked["from"] = (UNTIL - timedelta(days=32)).isoformat()
    status, answer = await api.ask("/api/v1/telemetry/summary", **asked)
    assert (status, answer["error"]["code"]) == (400, "invalid_request")


async def test_the_years_before_cost_nothing(edge_pool: Pool) -> None:
    """Only index entries of the hours that were asked for are read, whatever else there is of a device."""
    async with edge_pool.acquire() as connection:
        await connection.execute(
            """INSERT INTO telemetry_agg (tenant_id, farm_id, barn_id, device_id, metric_type, "window", bucket_start_at,
                                          bucket_end_at, sum_value, count, min_value, max_value)
               SELECT 'demo', 'farm-1', 'barn-1', 'node-' || device, 't', w, at, at + interval '1 hour', 1, 3600, 1, 1
                 FROM generate_series(1, 20) AS device, unnest(ARRAY['1h', '1d']) AS w,
                      generate_series($1::timestamptz - interval '100 days', $1, interval '1 hour') AS at""",
            NOW,
        )
        await connection.execute("ANALYZE telemetry_agg")
    found = await told(edge_pool, NOW - timedelta(hours=23), NOW + timedelta(minutes=1))
    assert found.stored == 20 * 24 * 3600
    async with edge_pool.acquire() as connection:
        before = await _read(connection)
        until = NOW + timedelta(minutes=1)
        await summarize(connection, tenant_id="demo", since=NOW - timedelta(hours=23), until=until, limit=100)
        after = await _read(connection)
    assert after - before <= 20 * 24 * 3 + 200, "about the rows of the day, not all 96,000"


async def _read(connection: "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]") -> int:
    await connection.execute("SELECT pg_stat_force_next_flush()")
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    return int(
        await connection.fetchval(
            "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'telemetry_agg'"
        )
    )

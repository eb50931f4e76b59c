"""Aggregates go by age in small steps, and the totals stay what they were."""

from datetime import UTC, datetime, timedelta

import pytest

from farmiq.edge.telemetry_timeseries import cleanup
from farmiq.edge.telemetry_timeseries.jobs import jobs
from farmiq.kit.postgres import Pool
from farmiq.timeseries import store
from support.stored_months import StoppedClock, run_now, store_samples

RETENTION = next(job for job in jobs({}) if job.name == "telemetry-agg-retention")


async def windows(pool: Pool) -> dict[str, int]:
    rows = await pool.fetch('SELECT "window", count(*) FROM telemetry_agg GROUP BY 1')
    return {row["window"]: row["count"] for row in rows}


async def stored(pool: Pool) -> int:
    async with pool.acquire() as connection:
        return (await store.totals(connection))["stored"]


async def test_aggregates_past_retention_go_and_the_totals_stay_true(edge_pool: Pool) -> None:
    now = datetime.now(UTC)
    old, young = now - timedelta(days=367), now - timedelta(days=300)
    await store_samples(edge_pool, [old, old + timedelta(microseconds=1), young])
    assert await stored(edge_pool) == 3
    expired = sum((await windows(edge_pool)).values()) - 3
    assert await run_now(edge_pool, RETENTION, is_dry_run=True) == {"rows": expired}
    assert await run_now(edge_pool, RETENTION) == {"rows": expired}
    assert await windows(edge_pool) == {"1m": 1, "1h": 1, "1d": 1}
    assert await stored(edge_pool) == 3

    await store_samples(edge_pool, [old])
    assert await stored(edge_pool) == 4
    await run_now(edge_pool, RETENTION)
    assert await stored(edge_pool) == 4


async def test_a_bucket_is_kept_until_its_end_is_past_retention(edge_pool: Pool) -> None:
    day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=10)
    await store_samples(edge_pool, [day + timedelta(hours=1)])
    end_of_day = day + timedelta(days=1 + 365)
    await run_now(edge_pool, RETENTION, clock=StoppedClock(end_of_day - timedelta(microseconds=1)))
    assert await windows(edge_pool) == {"1d": 1}
    await run_now(edge_pool, RETENTION, clock=StoppedClock(end_of_day))
    assert await windows(edge_pool) == {}
    assert await stored(edge_pool) == 1


async def test_steps_are_small_and_take_everything(edge_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "STEP_ROWS", 7)
    old = datetime.now(UTC) - timedelta(days=400)
    await store_samples(edge_pool, [old + timedelta(minutes=minute) for minute in range(60)])
    before = sum((await windows(edge_pool)).values())
    assert before > 60
    assert await run_now(edge_pool, RETENTION) == {"rows": before}
    assert await windows(edge_pool) == {}
    assert await stored(edge_pool) == 60


async def test_an_aggregate_that_the_cloud_has_still_to_be_told_of_stays(edge_pool: Pool) -> None:
    old = datetime.now(UTC) - timedelta(days=400)
    await store_samples(edge_pool, [old])
    await edge_pool.execute(
        'INSERT INTO telemetry_agg_unsent (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, due_at)'
        ' SELECT tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, now() FROM telemetry_agg'
        " WHERE \"window\" = '1h' ON CONFLICT DO NOTHING"
    )
    await run_now(edge_pool, RETENTION)
    assert (await windows(edge_pool)).get("1h") == 1
    await edge_pool.execute("DELETE FROM telemetry_agg_unsent")
    await run_now(edge_pool, RETENTION)
    assert await windows(edge_pool) == {}

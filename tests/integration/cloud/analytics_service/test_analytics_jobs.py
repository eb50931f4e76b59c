from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from farmiq.cloud.analytics_service.jobs import jobs
from farmiq.kit.jobs import Job
from farmiq.kit.postgres import Pool
from support import analytics_events as events
from support.analytics_service import Analytics
from support.stored_months import StoppedClock, run_now

NOW = datetime(2026, 3, 15, 20, tzinfo=UTC)


def job(name: str, **environ: str) -> Job:
    return next(one for one in jobs(environ) if one.name == name)


async def test_silence_is_noticed_although_no_event_comes(cloud_pool: Pool) -> None:
    last_heard = NOW - timedelta(hours=5)
    analytics = Analytics(cloud_pool, last_heard)
    start_at = NOW.replace(hour=0) - timedelta(days=6)
    hours = [start_at + timedelta(hours=hour) for hour in range(6 * 24 + 15)]
    await analytics.take([events.hour(at, 20.0 + at.hour / 10 + at.day % 3 / 10) for at in hours])
    await analytics.take([events.pack([last_heard, last_heard], [20.5, 60.0])])
    await analytics.compute()
    assert await analytics.anomalies() == []

    analytics.now = NOW
    assert await analytics.compute() == 0
    silence = job("cloud-analytics-silence")
    assert await run_now(cloud_pool, silence, clock=StoppedClock(NOW), is_dry_run=True) == {"barns": 1}
    assert await analytics.marks() == []
    assert await run_now(cloud_pool, silence, clock=StoppedClock(NOW)) == {"barns": 1}
    assert await analytics.compute() == 1
    (found,) = await analytics.anomalies()
    assert found[3:6] == ("dropout", "warning", "node-1")
    assert (found[9], found[10]) == (last_heard, None)
    assert "20.5 C" in found[11]


async def test_early_in_the_day_yesterday_is_looked_at_too(cloud_pool: Pool) -> None:
    analytics = Analytics(cloud_pool, NOW)
    await analytics.take([events.pack([NOW], [20.5])])
    midnight = NOW.replace(hour=0) + timedelta(days=1)
    await run_now(cloud_pool, job("cloud-analytics-silence"), clock=StoppedClock(midnight + timedelta(hours=1)))
    assert [mark[2] for mark in await analytics.marks()] == [NOW.date(), midnight.date()]
    await cloud_pool.execute("DELETE FROM analytics_marks")
    long_after = midnight + timedelta(days=30)
    await run_now(cloud_pool, job("cloud-analytics-silence"), clock=StoppedClock(long_after))
    assert await analytics.marks() == []


@pytest.mark.parametrize("is_dry_run", [True, False])
async def test_facts_and_results_go_when_they_are_too_old(cloud_pool: Pool, is_dry_run: bool) -> None:
    analytics, session = Analytics(cloud_pool, NOW), uuid4()
    for at in (NOW - timedelta(days=95), NOW - timedelta(days=1)):
        hour = at.replace(minute=0)
        await analytics.take([events.hour(hour, 20.0), events.loss(at, at, 5), events.pack([at], [1.0])])
    old = NOW - timedelta(days=800)
    await analytics.take(
        [
            events.created(session, old), events.weight(session, old, 1.0), events.seen(session, old, 1.0),
            events.finalized(session, old, 1.0), events.finalized(uuid4(), NOW - timedelta(days=95), 100.0),
        ]
    )  # fmt: skip
    await analytics.compute()
    facts, results = job("cloud-analytics-retention"), job("cloud-analytics-results-retention")
    clock, much_later = StoppedClock(NOW), StoppedClock(NOW + timedelta(days=1826))
    assert await run_now(cloud_pool, facts, clock=clock, is_dry_run=is_dry_run) == {
        "hours": 1, "losses": 1, "series": 0, "sessions": 1, "weights": 1, "inferences": 1,
    }  # fmt: skip
    kpis = len(await analytics.kpis())
    assert kpis > 0
    assert await run_now(cloud_pool, results, clock=clock, is_dry_run=is_dry_run) == {"kpis": 0, "anomalies": 0}
    report = await run_now(cloud_pool, results, clock=much_later, is_dry_run=is_dry_run)
    assert report == {"kpis": kpis, "anomalies": 0}
    kept = {table: len(rows) for table, rows in (await analytics.facts()).items()}
    assert kept["analytics_hours"] == (2 if is_dry_run else 1)
    assert kept["analytics_sessions"] == (2 if is_dry_run else 1)
    assert len(await analytics.kpis()) == (kpis if is_dry_run else 0)

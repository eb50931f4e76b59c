"""What the cloud's door forgets: months that nothing has come for, and old rows of ids that belong to no month."""

import asyncio
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID, uuid4

from farmiq.cloud.ingestion.jobs import jobs
from farmiq.kit.jobs import Job
from farmiq.kit.month_partitions import month_after
from farmiq.kit.postgres import Pool
from support.stored_months import StoppedClock, run_now

OLD = month_after(datetime.now(UTC).date(), -5)
RETENTION = "cloud-dedupe-retention"


def job(name: str, **environ: str) -> Job:
    return next(one for one in jobs(environ) if one.name == name)


def id_made_in(month: date) -> UUID:
    """A UUID v7 of the tenth of that month."""
    made_at = datetime.combine(month, time(), UTC) + timedelta(days=10)
    low = uuid4().int & ((1 << 62) - 1)
    return UUID(int=int(made_at.timestamp() * 1000) << 80 | 7 << 76 | 2 << 62 | low)


async def see(pool: Pool, event_id: UUID, days_ago: float) -> None:
    await pool.execute(
        "INSERT INTO ingest_dedupe (tenant_id, event_id, first_seen_at) VALUES ('demo', $1, now() - make_interval(secs => $2))",
        event_id,
        days_ago * 86_400,
    )


async def make_old_month(pool: Pool) -> str:
    name: str = await pool.fetchval("SELECT ensure_month_partition('ingest_dedupe', $1)::text", OLD)
    return name


async def there(pool: Pool, name: str) -> bool:
    return bool(await pool.fetchval("SELECT to_regclass($1) IS NOT NULL", name))


async def test_months_are_made_ahead(cloud_pool: Pool) -> None:
    later = month_after(datetime.now(UTC).date(), 12)
    clock = StoppedClock(datetime.combine(later, time(), UTC) + timedelta(days=3))
    assert await run_now(cloud_pool, job("cloud-dedupe-partitions"), clock=clock) == {"made": 3, "postponed": 0}
    assert await there(cloud_pool, later.strftime("ingest_dedupe_%Y_%m"))


async def test_a_month_goes_when_nothing_has_come_for_it_within_retention(cloud_pool: Pool) -> None:
    name = await make_old_month(cloud_pool)
    await see(cloud_pool, id_made_in(OLD), days_ago=100)
    foretold = await run_now(cloud_pool, job(RETENTION), is_dry_run=True)
    assert await there(cloud_pool, name)
    report = await run_now(cloud_pool, job(RETENTION))
    assert report == foretold
    assert report == {"dropped": 1, "kept": 0, "rows": 0, "dropped_partitions": [name]}
    assert not await there(cloud_pool, name)


async def test_an_old_month_stays_while_its_events_still_come(cloud_pool: Pool) -> None:
    name = await make_old_month(cloud_pool)
    for days_ago in (100, 1):
        await see(cloud_pool, id_made_in(OLD), days_ago)
    report = await run_now(cloud_pool, job(RETENTION))
    assert (report["dropped"], report["kept"]) == (0, 1)
    assert await cloud_pool.fetchval(f"SELECT count(*) FROM {name}") == 2  # noqa: S608 - ours


async def test_ids_of_no_month_go_by_when_they_came(cloud_pool: Pool) -> None:
    for days_ago in (89, 91, 200):
        await see(cloud_pool, uuid4(), days_ago)
    assert (await run_now(cloud_pool, job(RETENTION)))["rows"] == 2
    assert (await run_now(cloud_pool, job(RETENTION, INGEST_DEDUPE_RETENTION_DAYS="30")))["rows"] == 1


async def test_this_month_and_those_to_come_are_never_touched(cloud_pool: Pool) -> None:
    names = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'ingest_dedupe'::regclass"
    before = await cloud_pool.fetchval(names)
    reports = await asyncio.gather(run_now(cloud_pool, job(RETENTION, INGEST_DEDUPE_RETENTION_DAYS="90")))
    assert reports[0]["dropped"] == 0
    assert await cloud_pool.fetchval(names) == before

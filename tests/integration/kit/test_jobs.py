"""Jobs on a real database: once in an interval whoever knocks, cut anywhere, and never the end of the service."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from farmiq.kit import job_runs
from farmiq.kit.clock import Clock
from farmiq.kit.jobs import Job, JobBusy, Report, Work, keep_jobs, run_now, scheduled
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.metrics import render
from farmiq.kit.postgres import Pool
from support.waiting import eventually, wait_for

DAY_SECONDS = 86_400.0


class Counted:
    """A job that counts its runs, and can be held in the middle of one."""

    def __init__(self, name: str = "count", interval_seconds: float = DAY_SECONDS) -> None:
        self.runs = 0
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.error: Exception | None = None
        self.job = Job(name, interval_seconds, "counts", self._run)

    async def _run(self, _work: Work) -> Report:
        self.runs += 1
        self.began.set()
        await self.may_end.wait()
        if self.error:
            raise self.error
        return {"rows": 3, "names": ["a"]}


async def run(pool: Pool, job: Job, *, is_dry_run: bool = False) -> Report:
    async with pool.acquire() as connection:
        return await run_now(connection, job, clock=Clock(), instance_id="me", is_dry_run=is_dry_run)


async def last_run(pool: Pool, name: str) -> job_runs.LastRun | None:
    async with pool.acquire() as connection:
        return (await job_runs.last_runs(connection, [name])).get(name)


@asynccontextmanager
async def replica(pool: Pool, *jobs: Job) -> AsyncIterator[Lifetime]:
    """A scheduler as a service runs it, ended as a service ends it."""
    life = Lifetime("test")
    work = keep_jobs(life, pool, jobs, "me", rng=random.Random(1), spread_seconds=0.0)
    task = asyncio.create_task(life.until_stopped(work))
    try:
        yield life
    finally:
        life.stopping.set()
        await asyncio.wait_for(task, 5)


def shown(registry: CollectorRegistry, line: str) -> Callable[[], bool]:
    return lambda: line in render(registry).decode()


async def test_a_run_leaves_its_report(any_pool: Pool) -> None:
    counted = Counted()
    assert await run(any_pool, counted.job) == {"rows": 3, "names": ["a"]}
    last = await last_run(any_pool, "count")
    assert last is not None
    assert (bytes(last.last_report), last.last_error) == (b'{"rows": 3, "names": ["a"]}', None)
    assert last.last_instance_id == "me"
    assert last.last_succeeded_at is not None
    assert last.last_succeeded_at == last.last_finished_at


async def test_a_dry_run_leaves_no_trace(edge_pool: Pool) -> None:
    counted = Counted()
    await run(edge_pool, counted.job, is_dry_run=True)
    assert counted.runs == 1
    assert await last_run(edge_pool, "count") is None


async def test_of_two_replicas_that_start_at_once_one_runs_the_job(edge_pool: Pool) -> None:
    counted = Counted()
    counted.may_end.clear()
    async with replica(edge_pool, counted.job), replica(edge_pool, counted.job):
        await counted.began.wait()
        with pytest.raises(JobBusy, match="count is being run by another replica"):
            await run(edge_pool, counted.job)
        counted.may_end.set()
        await eventually(lambda: _has_finished(edge_pool))
    assert counted.runs == 1


async def test_a_job_that_ran_lately_is_not_due_for_a_replica_that_comes_later(edge_pool: Pool) -> None:
    counted, marker = Counted(), Counted("marker")
    await run(edge_pool, counted.job)
    async with replica(edge_pool, counted.job, marker.job) as life:
        await marker.began.wait()
        wait_for(shown(life.registry, 'farmiq_job_last_report{count="rows",job_name="count"} 3.0'))
    assert (counted.runs, marker.runs) == (1, 1)


class Keeper:
    """A job that notes up to when it may delete what is no more than an hour old."""

    def __init__(self) -> None:
        self.cutoffs: list[datetime] = []
        self.days: list[int] = []
        self.job = Job("keep", 6 * 3600.0, "keeps", self._run)

    async def _run(self, work: Work) -> Report:
        self.cutoffs.append(work.cutoff(timedelta(hours=1)))
        self.days.append(work.days(30))
        return {}


async def later(pool: Pool, by: str) -> None:
    """The clock is further by this at the next run: all that is written lies further back."""
    await pool.execute(
        f"UPDATE job_runs SET last_started_at = last_started_at - interval '{by}', believed_at = believed_at - interval '{by}'"  # noqa: S608 - ours
    )


async def test_a_clock_that_is_a_year_ahead_for_a_while_deletes_no_year(any_pool: Pool) -> None:
    """promise-device-edge 7: what a job deletes goes by what it believes of the clock, and that goes on by a day in a run."""
    keeper, now = Keeper(), datetime.now(UTC)
    await run(any_pool, keeper.job)
    await later(any_pool, "365 days")
    await run(any_pool, keeper.job, is_dry_run=True)
    await run(any_pool, keeper.job)
    await later(any_pool, "6 hours")
    await run(any_pool, keeper.job)
    await later(any_pool, "-365 days -6 hours")
    await run(any_pool, keeper.job)
    days_back = [round((now - cutoff) / timedelta(days=1)) for cutoff in keeper.cutoffs]
    assert days_back == [0, 364, 364, 363, 0], "a day of 365, and another one six hours later"
    assert keeper.days == [30, 394, 394, 394, 30], "whole days, and rather one more"


async def test_a_job_believes_a_clock_that_goes_as_it_should_however_rarely_it_runs(any_pool: Pool) -> None:
    keeper, now = Keeper(), datetime.now(UTC)
    for by in ("0 hours", "6 hours", "25 hours", "-25 hours", "1 hour"):
        await later(any_pool, by)
        await run(any_pool, keeper.job)
    assert all(abs(now - timedelta(hours=1) - cutoff) < timedelta(minutes=10) for cutoff in keeper.cutoffs)


@pytest.mark.parametrize("age", ["2 days", "-1 days"])
async def test_a_job_is_due_after_its_interval_and_when_the_clock_was_set_back(edge_pool: Pool, age: str) -> None:
    counted = Counted()
    await run(edge_pool, counted.job)
    await edge_pool.execute(f"UPDATE job_runs SET last_started_at = now() - interval '{age}'")  # noqa: S608 - ours
    async with replica(edge_pool, counted.job):
        await eventually(lambda: _equals(counted, 2))
    assert counted.runs == 2


async def test_an_error_is_kept_and_shown_and_the_other_jobs_go_on(edge_pool: Pool) -> None:
    broken, sound = Counted("broken"), Counted("sound")
    broken.error = RuntimeError("no postgresql://farm:hunter2@host/db here")
    async with replica(edge_pool, broken.job, sound.job) as life:
        await sound.began.wait()
        await broken.began.wait()
        await eventually(lambda: _has_finished(edge_pool, "broken"))
        wait_for(shown(life.registry, 'farmiq_job_failing{job_name="broken"} 1.0'))
    last = await last_run(edge_pool, "broken")
    assert last is not None
    assert last.last_error == "RuntimeError: no postgresql://farm:***@host/db here"
    assert last.last_succeeded_at is None
    assert broken.runs == 1


async def test_a_job_that_succeeds_again_is_no_longer_failing(edge_pool: Pool) -> None:
    counted = Counted()
    counted.error = RuntimeError("once")
    with pytest.raises(RuntimeError):
        await run(edge_pool, counted.job)
    counted.error = None
    await run(edge_pool, counted.job)
    last = await last_run(edge_pool, "count")
    assert last is not None
    assert last.last_error is None
    assert last.last_failed_at is not None


async def test_a_service_that_stops_cuts_the_job_and_gives_its_lock_back(edge_pool: Pool) -> None:
    counted = Counted()
    counted.may_end.clear()
    async with replica(edge_pool, counted.job):
        await counted.began.wait()
    counted.may_end.set()
    await run(edge_pool, counted.job)
    assert counted.runs == 2


async def test_a_replica_whose_session_ends_loses_the_job_with_it(edge_pool: Pool, edge_url: str) -> None:
    async def part(work: Work) -> Report:
        await work.connection.execute("CREATE TABLE first_step ()")
        await work.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        await work.connection.execute("CREATE TABLE second_step ()")
        return {}

    dying = Job("dying", DAY_SECONDS, "dies", part)
    connection = await asyncpg.connect(edge_url)
    with pytest.raises((asyncpg.AdminShutdownError, asyncpg.ConnectionDoesNotExistError, asyncpg.InterfaceError)):
        await run_now(connection, dying, clock=Clock(), instance_id="first")
    tables = await edge_pool.fetchrow("SELECT to_regclass('first_step') IS NULL, to_regclass('second_step') IS NULL")
    assert tables is not None
    assert tuple(tables) == (False, True)
    again = Counted("dying")
    await eventually(lambda: _runs(edge_pool, again.job))
    assert again.runs == 1


async def test_jobs_can_be_left_to_somebody_else() -> None:
    counted = Counted()
    assert list(scheduled([counted.job], {})) == [counted.job]
    assert list(scheduled([counted.job], {"JOB_SCHEDULER_ENABLED": "false"})) == []


async def _equals(counted: Counted, runs: int) -> bool:
    return counted.runs == runs


async def _has_finished(pool: Pool, name: str = "count") -> bool:
    last = await last_run(pool, name)
    return last is not None and last.last_finished_at is not None


async def _runs(pool: Pool, job: Job) -> bool:
    """The server may take a moment to see that a session is gone."""
    try:
        await run(pool, job)
    except JobBusy:
        return False
    return True

"""Work that comes round: preparing partitions, cleaning up. Once in an interval, however many replicas there are.

A job is a plain async function that is given a connection and answers with counts. Every replica of its owner looks when
it is due; the one that gets the job's advisory lock, and finds in `job_runs` that nobody did it lately, runs it on the
connection that holds the lock. A replica that loses that connection so loses the right to work at the same moment.

Jobs work in steps, each of them a transaction of its own, so that a run can be cut anywhere: by the end of the service, by
`kill -9`, by the database. What was not done is done by the next run. An error is logged, kept in `job_runs.last_error`,
and tried again at the next interval; it never ends the service, whose samples matter more.

`farmiq jobs run NAME` runs the same function under the same lock.

What a job deletes goes by `Work.cutoff` and never by the clock itself: a clock that is a year ahead for an hour would delete a
year. From one run to the next a job believes no more than a step of the clock (`believed_seconds`): when it is put right
within hours, a few days were deleted early, and not a year.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final, TypeAlias

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.kit import job_runs
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Transient
from farmiq.kit.job_runs import LastRun
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger, mask
from farmiq.kit.postgres import RETRY, Connection, Pool
from farmiq.kit.settings import Settings, load

START_SPREAD_SECONDS: Final = 5.0
JITTER_SECONDS_MAX: Final = 30.0
LOOK_AGAIN_SECONDS: Final = 60.0
"""After an error, and while another replica is at it. Whether the job is due is asked again then."""

BELIEVED_INTERVALS: Final = 4
BELIEVED_SECONDS_MIN: Final = 26 * 3600.0
"""By how much what a job believes of the clock goes on in one run: so many intervals, and as much as a daily CronJob needs."""

log = get_logger(__name__)

Report: TypeAlias = dict[str, int | list[str]]
"""Counts by name, and names of what was touched where a person would ask for them."""


class JobBusy(Transient):
    """Another replica is running this job just now. Nothing was done here, and nothing needs to be."""

    code = "job_busy"


class JobSettings(Settings, frozen=True, kw_only=True):
    job_scheduler_enabled: bool = True
    """False leaves the jobs to somebody else, for instance to CronJobs with `farmiq jobs run NAME`."""


@dataclass(frozen=True)
class Work:
    """What a job may use. In a dry run it changes nothing and reports what it would have done."""

    connection: Connection
    clock: Clock
    is_dry_run: bool = False
    doubt: timedelta = timedelta()
    """By how much the clock has gone on further than the job believes."""

    def cutoff(self, age: timedelta) -> datetime:
        """What is older than that may be deleted if it was there before this moment."""
        return self.clock.now() - self.doubt - age

    def days(self, retention_days: int) -> int:
        """The same for a statement that reckons with the database's clock."""
        return retention_days + ceil(self.doubt / timedelta(days=1))


@dataclass(frozen=True)
class Job:
    name: str
    interval_seconds: float
    about: str
    run: Callable[[Work], Awaitable[Report]]

    @property
    def believed_seconds(self) -> float:
        """How far the clock may go on from one run to the next before the job doubts it."""
        return max(BELIEVED_SECONDS_MIN, BELIEVED_INTERVALS * self.interval_seconds)


class Meter:
    """What every replica shows of each job, whichever replica ran it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._runs = Counter("farmiq_job_runs", "Runs on this replica.", ["job_name", "outcome"], registry=registry)
        self._success = Gauge(
            "farmiq_job_last_success_timestamp_seconds", "When it last succeeded.", ["job_name"], registry=registry
        )
        self._duration = Gauge(
            "farmiq_job_last_duration_seconds", "How long that took.", ["job_name"], registry=registry
        )
        self._report = Gauge("farmiq_job_last_report", "What that counted.", ["job_name", "count"], registry=registry)
        self._failing = Gauge("farmiq_job_failing", "1 while its last run has failed.", ["job_name"], registry=registry)

    def ran(self, job_name: str, outcome: str) -> None:
        self._runs.labels(job_name, outcome).inc()

    def saw(self, last: LastRun) -> None:
        self._failing.labels(last.job_name).set(last.last_error is not None)
        if last.last_succeeded_at is None:
            return
        self._success.labels(last.job_name).set(last.last_succeeded_at.timestamp())
        if last.last_error is None:
            self._duration.labels(last.job_name).set(last.last_duration_seconds or 0.0)
        for name, value in counts_of(last).items():
            self._report.labels(last.job_name, name).set(value)


def counts_of(last: LastRun) -> dict[str, int]:
    report = msgspec.json.decode(last.last_report, type=Report)
    return {name: value for name, value in report.items() if isinstance(value, int)}


def scheduled(jobs: Sequence[Job], environ: Mapping[str, str]) -> Sequence[Job]:
    """The jobs that the service runs by itself: all of them, or none. For the start, where a wrong setting still stops it."""
    return jobs if load(JobSettings, environ).job_scheduler_enabled else ()


async def keep_jobs(
    life: Lifetime,
    pool: Pool,
    jobs: Sequence[Job],
    instance_id: str,
    *,
    rng: random.Random | None = None,
    spread_seconds: float = START_SPREAD_SECONDS,
) -> None:
    """The scheduler inside a service: until cancelled."""
    scheduler = _Scheduler(life, pool, instance_id, rng or random.Random())  # noqa: S311 - spreads load, guards nothing
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(scheduler.keep(job, spread_seconds), name=job.name)


async def run_now(
    connection: Connection, job: Job, *, clock: Clock, instance_id: str, is_dry_run: bool = False
) -> Report:
    """Run a job, due or not, and say what it did. `JobBusy` when another replica is at it."""
    async with job_runs.locked(connection, job.name) as is_ours:
        if not is_ours:
            raise JobBusy(f"{job.name} is being run by another replica")
        if is_dry_run:
            doubt = await job_runs.doubt(connection, job.name, job.believed_seconds)
            return await job.run(Work(connection, clock, is_dry_run=True, doubt=doubt))
        return await _run(connection, job, clock, instance_id)


class _Scheduler:
    def __init__(self, life: Lifetime, pool: Pool, instance_id: str, rng: random.Random) -> None:
        self._life = life
        self._pool = pool
        self._instance_id = instance_id
        self._rng = rng
        self._meter = Meter(life.registry)
        # Housekeeping never takes more than one connection from the service that it belongs to.
        self._turn = asyncio.Lock()

    async def keep(self, job: Job, spread_seconds: float) -> None:
        # Replicas that start together do not knock together.
        is_running = await self._life.pause(self._rng.uniform(0, spread_seconds))
        while is_running:
            async with self._turn:
                wait_seconds = await self._take_turn(job)
            jitter_seconds = self._rng.uniform(0, min(JITTER_SECONDS_MAX, job.interval_seconds * 0.05))
            is_running = await self._life.pause(wait_seconds + jitter_seconds)

    async def _take_turn(self, job: Job) -> float:
        """Run the job if it is due. Returns after how many seconds to look again."""
        look_again_seconds = min(job.interval_seconds, LOOK_AGAIN_SECONDS)
        try:
            async with self._pool.acquire() as connection, job_runs.locked(connection, job.name) as is_ours:
                if not is_ours:
                    return look_again_seconds
                wait_seconds = seconds_until_due(job, await self._last(connection, job))
                if wait_seconds <= 0:
                    await self._run_due(connection, job)
                    wait_seconds = job.interval_seconds
                return wait_seconds
        except RETRY as error:
            # Nobody is needed: it goes on where it was cut, at the next interval or as soon as the database is back.
            self._meter.ran(job.name, "interrupted")
            log.warning("job_interrupted", job=job.name, reason=str(error) or type(error).__name__)
        except Exception:
            # A clean-up that fails must not end a service that takes samples. It is logged here and kept in `job_runs`.
            self._meter.ran(job.name, "failed")
            log.exception("job_failed", job=job.name)
        return look_again_seconds

    async def _run_due(self, connection: Connection, job: Job) -> None:
        try:
            report = await _run(connection, job, self._life.clock, self._instance_id)
        finally:
            if not connection.is_closed():
                await self._last(connection, job)
        self._meter.ran(job.name, "succeeded")
        log.info("job_finished", job=job.name, **report)

    async def _last(self, connection: Connection, job: Job) -> LastRun | None:
        last = (await job_runs.last_runs(connection, [job.name])).get(job.name)
        if last is not None:
            self._meter.saw(last)
        return last


def seconds_until_due(job: Job, last: LastRun | None) -> float:
    """A start in the future is one before the clock was set back, and says nothing."""
    if last is None or last.age_seconds < 0:
        return 0.0
    return max(0.0, job.interval_seconds - last.age_seconds)


async def _run(connection: Connection, job: Job, clock: Clock, instance_id: str) -> Report:
    doubt = await job_runs.record_start(connection, job.name, instance_id, job.believed_seconds)
    if doubt:
        log.warning("clock_doubted", job=job.name, seconds=round(doubt.total_seconds()))
    began = clock.monotonic()
    try:
        report = await job.run(Work(connection, clock, doubt=doubt))
    except Exception as error:
        if not connection.is_closed():
            reason = mask(f"{type(error).__name__}: {error}")
            await job_runs.record_failure(connection, job.name, clock.monotonic() - began, reason)
        raise
    await job_runs.record_success(connection, job.name, clock.monotonic() - began, report)
    return report

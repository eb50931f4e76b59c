"""Computes again the days that something has changed for, one at a time, until the service ends. Any number of replicas may."""

import asyncio
from datetime import datetime
from itertools import cycle
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from farmiq.cloud.analytics_service import marks, results, rows
from farmiq.cloud.analytics_service.barn_day import judged
from farmiq.cloud.analytics_service.marks import MarkedDay, horizon_of
from farmiq.cloud.analytics_service.settings import Rules
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, Pool
from farmiq.kit.retry import Backoff

WATCH_SECONDS: Final = 15.0

log = get_logger(__name__)


class DayFailed(Exception):
    """A barn's day could not be computed. Its marks are kept, and it is tried again in ten minutes."""

    def __init__(self, day: MarkedDay) -> None:
        super().__init__(f"{day.tenant_id}/{day.farm_id}/{day.barn_id} on {day.day}")
        self.day = day


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.computed = Counter("farmiq_analytics_days_computed", "Days of barns computed.", registry=registry)
        self.failed = Counter(
            "farmiq_analytics_days_failed", "Days of barns that could not be computed.", registry=registry
        )
        self.seconds = Histogram(
            "farmiq_analytics_day_seconds", "How long one day of one barn takes.", registry=registry
        )
        self.marks = Gauge(
            "farmiq_analytics_marks_waiting", "Marks of changed days, not yet computed.", registry=registry
        )
        self.oldest = Gauge(
            "farmiq_analytics_oldest_mark_seconds", "How long the oldest has waited.", registry=registry
        )


class Recomputer:
    """What computing a day needs, and nothing that lasts from one day to the next."""

    def __init__(self, pool: Pool, rules: Rules, hours_retention_days: int, counters: Counters) -> None:
        self._pool = pool
        self._rules = rules
        self._hours_retention_days = hours_retention_days
        self._counters = counters

    async def compute_next(self, now: datetime, *, is_newest: bool, quiet_seconds: float) -> bool:
        """Compute one day and commit it. False when there is none that is due. `DayFailed` leaves everything as it was."""
        async with self._pool.acquire() as connection, connection.transaction():
            day = await marks.take(connection, is_newest=is_newest, quiet_seconds=quiet_seconds)
            if day is None:
                return False
            with self._counters.seconds.time():
                try:
                    await self._compute(connection, day, now)
                except RETRY:
                    raise
                except Exception as error:
                    raise DayFailed(day) from error
        self._counters.computed.inc()
        return True

    async def _compute(self, connection: Connection, day: MarkedDay, now: datetime) -> None:
        if day.day < horizon_of(self._rules.calendar, now, self._hours_retention_days).first:
            # Part of what it is made of is gone: it would come out worse than it is stored.
            log.warning("day_left_as_it_was", tenant_id=day.tenant_id, barn_id=day.barn_id, day=str(day.day))
            return
        comfort = self._rules.comfort_of(day.tenant_id, day.farm_id, day.barn_id)
        found = await rows.barn_day(connection, day, self._rules.calendar, now)
        judgement = await asyncio.to_thread(judged, found, self._rules.anomalies, comfort)
        await results.replace(connection, day, judgement, now)

    async def postpone(self, failed: DayFailed) -> None:
        """A day that cannot be computed must not keep the others waiting."""
        self._counters.failed.inc()
        log.error("day_not_computed", day=str(failed), exc_info=failed)
        async with self._pool.acquire() as connection:
            await marks.postpone(connection, failed.day)

    async def watch(self) -> None:
        async with self._pool.acquire() as connection:
            waiting, oldest_seconds = await marks.waiting(connection)
        self._counters.marks.set(waiting)
        self._counters.oldest.set(oldest_seconds)


async def recompute(life: Lifetime, recomputer: Recomputer, *, quiet_seconds: float, poll_seconds: float) -> None:
    """Until cancelled. Cut anywhere, it loses nothing: marks and results are committed together."""
    backoff = Backoff(base_seconds=0.1, cap_seconds=5.0)
    turns = cycle((True, False))
    while not life.stopping.is_set():
        try:
            if not await _turn(life, recomputer, next(turns), quiet_seconds):
                await life.pause(poll_seconds)
            backoff.reset()
        except RETRY as error:
            if backoff.failures == 0:
                log.warning("database_waited_for", reason=str(error) or type(error).__name__)
            await life.pause(backoff.next_seconds())


async def _turn(life: Lifetime, recomputer: Recomputer, is_newest: bool, quiet_seconds: float) -> bool:
    try:
        return await recomputer.compute_next(life.clock.now(), is_newest=is_newest, quiet_seconds=quiet_seconds)
    except DayFailed as failed:
        await recomputer.postpone(failed)
        return True


async def watch_marks(life: Lifetime, recomputer: Recomputer) -> None:
    """How far behind the computation is, for the metrics."""
    while True:
        try:
            await recomputer.watch()
        except RETRY as error:
            log.warning("marks_not_counted", reason=str(error) or type(error).__name__)
        if not await life.pause(WATCH_SECONDS):
            return

"""The loop: look at every service's metrics, decide, write down, tell."""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import aiohttp

from farmiq.alerting.changes import changes
from farmiq.alerting.counters import Counters
from farmiq.alerting.courier import carry_notices
from farmiq.alerting.disks import watch_disks
from farmiq.alerting.evaluation import Evaluated, Moment, evaluate
from farmiq.alerting.expressions import Increase
from farmiq.alerting.history import History, Sample
from farmiq.alerting.rules import RULES, longest_window_seconds, metrics_asked_for
from farmiq.alerting.scrape import SCRAPE_SECONDS, NotScraped, own_samples, scrape
from farmiq.alerting.store import AlertStore
from farmiq.alerting.webhook import Webhook
from farmiq.kit.http_client import open_session
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger

INTERVAL_SECONDS: Final = 15.0
FORGET_SECONDS: Final = 3600.0

log = get_logger(__name__)


async def keep_alerts(
    life: Lifetime,
    targets: Mapping[str, str],
    store: AlertStore,
    webhook: Webhook | None = None,
    *,
    disks: Sequence[Path] = (),
    interval_seconds: float = INTERVAL_SECONDS,
) -> None:
    """Until cancelled. `targets` are the services by name, each with its address (`http://host:port`).

    This process's own metrics are looked at as well, under the name of its service. Cut anywhere, it loses no alert: what is
    still wrong is found again, and what was raised is still to be told.
    """
    watch_disks(life.registry, disks)
    counters = Counters(life.registry)
    watch = Watch(life, targets, store, counters, is_told=webhook is not None)
    async with asyncio.TaskGroup() as group:
        group.create_task(_look_round(life, watch, interval_seconds))
        group.create_task(_forget(life, store))
        if webhook is not None:
            group.create_task(carry_notices(life, store, webhook, counters))


class Watch:
    """What is remembered from one look to the next."""

    def __init__(
        self, life: Lifetime, targets: Mapping[str, str], store: AlertStore, counters: Counters, *, is_told: bool
    ) -> None:
        self._life = life
        self._targets = targets
        self._store = store
        self._counters = counters
        self._is_told = is_told
        self._metrics = metrics_asked_for()
        self._counted = {rule.expression.metric for rule in RULES if isinstance(rule.expression, Increase)}
        self._history = History(longest_window_seconds())
        self._last = Evaluated({}, [], frozenset())
        self._looked_at = life.clock.monotonic()
        for target, samples in store.counters().items():
            self._history.remember(target, self._looked_at, samples)

    async def look(self, session: aiohttp.ClientSession) -> None:
        shown = await asyncio.gather(*(self._ask(session, job, url) for job, url in self._targets.items()))
        at, now = self._life.clock.monotonic(), self._life.clock.now()
        for target, samples in zip(self._targets, shown, strict=True):
            self._history.add(target, at, samples)
        own = own_samples(self._life.service, self._life.registry, self._metrics)
        self._history.add(self._life.service, at, own)
        self._last = evaluate(RULES, self._history, Moment(at, now.timestamp()), self._last.since, self._looked_at)
        self._store.apply(changes(self._store.not_closed(), self._last, now), now, is_told=self._is_told)
        self._looked_at = at
        # After the alerts: killed in between, the same growth is found again, and it is the same cause.
        self._store.keep_counters(self._history.newest_of(self._counted))
        self._counters.stand(self._store.not_closed())

    async def _ask(self, session: aiohttp.ClientSession, job: str, url: str) -> list[Sample] | None:
        try:
            return await scrape(session, job, url.rstrip("/"), self._metrics)
        except NotScraped as error:
            self._counters.not_scraped.labels(job).inc()
            log.info("service_not_scraped", service_asked=job, reason=str(error))
            return None


async def _look_round(life: Lifetime, watch: Watch, interval_seconds: float) -> None:
    async with open_session(life.service, total_seconds=SCRAPE_SECONDS, connections_max=20) as session:
        is_running = True
        while is_running:
            try:
                await watch.look(session)
            except sqlite3.OperationalError as error:
                # A full disk is when alerts matter most. What is wrong is found again at the next look.
                log.error("alerts_not_written", reason=str(error))  # noqa: TRY400 - the message is the whole story
            is_running = await life.pause(interval_seconds)


async def _forget(life: Lifetime, store: AlertStore) -> None:
    is_running = True
    while is_running:
        try:
            store.forget_old(life.clock.now())
        except sqlite3.OperationalError as error:
            log.warning("forgetting_alerts_failed", reason=str(error))
        is_running = await life.pause(FORGET_SECONDS)

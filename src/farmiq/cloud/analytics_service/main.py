import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from farmiq.cloud.analytics_service.api import routes
from farmiq.cloud.analytics_service.consumer import KeepFacts
from farmiq.cloud.analytics_service.facts import Fact
from farmiq.cloud.analytics_service.jobs import jobs
from farmiq.cloud.analytics_service.settings import (
    AnalyticsRetentionSettings,
    AnalyticsSettings,
    JudgementSettings,
    rules_of,
)
from farmiq.cloud.analytics_service.topology import WORK_QUEUE
from farmiq.cloud.analytics_service.worker import Counters, Recomputer, recompute, watch_marks
from farmiq.cloud.dead_letters import saved
from farmiq.cloud.viewers import viewer_guard
from farmiq.kit.bus_worker import BusWorker, Work, run_bus_worker
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.settings import load

POOL_SIZE: Final = 8
"""One for the consumer, one for the day that is computed, one for the jobs, the rest for questions."""


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(AnalyticsSettings, environ)
    retention_days = load(AnalyticsRetentionSettings, environ).analytics_hours_retention_days
    rules = rules_of(load(JudgementSettings, environ))
    housekeeping = scheduled(jobs(environ), environ)
    worker = BusWorker(
        settings.amqp_url,
        WORK_QUEUE,
        name=life.service,
        batch_messages=settings.consume_batch_messages,
        batch_wait_seconds=settings.consume_batch_wait_ms / 1000,
    )
    async with await open_pool(settings.database_url, service=life.service, size_max=POOL_SIZE) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        facts: Work[Fact] = KeepFacts(pool, life.clock, rules.calendar, retention_days)
        recomputer = Recomputer(pool, rules, retention_days, Counters(life.registry))
        computing = recompute(
            life,
            recomputer,
            quiet_seconds=settings.recompute_debounce_ms / 1000,
            poll_seconds=settings.recompute_poll_ms / 1000,
        )
        guards = [viewer_guard(pool, settings.admin_token)]
        async with asyncio.TaskGroup() as group:
            group.create_task(run_bus_worker(life, worker, facts, count_saved=partial(saved.count, pool)))
            group.create_task(life.until_stopped(computing))
            group.create_task(life.until_stopped(watch_marks(life, recomputer)))
            group.create_task(
                life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
            )
            group.create_task(
                serve_http(life, settings, routes(pool, rules.calendar, guards, life.clock, retention_days))
            )

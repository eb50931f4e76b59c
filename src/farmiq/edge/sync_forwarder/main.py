import asyncio
import random
from collections.abc import Mapping
from typing import Any

from farmiq.edge.sync_forwarder.api import admin_routes, routes
from farmiq.edge.sync_forwarder.cloud import Cloud
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.delivery import Delivery
from farmiq.edge.sync_forwarder.jobs import jobs
from farmiq.edge.sync_forwarder.reporter import report_batches
from farmiq.edge.sync_forwarder.sampler import sample
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.settlement import Settlement
from farmiq.edge.sync_forwarder.wakeup import Wakeup, listen
from farmiq.edge.sync_forwarder.worker import Worker
from farmiq.kit.http_client import open_session
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import Pool, open_pool, ping, require_schema
from farmiq.kit.settings import load

POOL_REST = 6
"""Connections for everything that is not a request to the cloud: the claim, the API, samples, jobs."""


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(SyncForwarderSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    rng = random.Random()  # noqa: S311 - spreads retries, guards nothing
    counters = Counters(life.registry)
    wakeup = Wakeup()
    size_max = POOL_REST + settings.sync_requests_in_flight
    async with (
        await open_pool(settings.database_url, service=life.service, size_max=size_max) as pool,
        open_session(
            life.service,
            total_seconds=settings.sync_request_seconds,
            connections_max=settings.sync_requests_in_flight,
        ) as session,
    ):
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        cloud = Cloud(session, settings.batch_url, settings.cloud_ingestion_token, life.clock)
        replica = instance_id(life.service, environ)
        settlement = Settlement(pool, settings, counters, rng)
        delivery = Delivery(life, pool, cloud, settings, counters, settlement, instance_id=replica)
        worker = Worker(life, pool, delivery, wakeup, settings, counters, rng)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            group.create_task(life.until_stopped(listen(settings.database_url, wakeup)))
            group.create_task(life.until_stopped(sample(life, pool, counters)))
            group.create_task(life.until_stopped(keep_jobs(life, pool, housekeeping, replica)))
            if settings.sync_batch_events_seconds:
                group.create_task(life.until_stopped(_report(life, pool, wakeup, settings)))
            group.create_task(serve_http(life, settings, _routes(pool, wakeup, settings)))


async def _report(life: Lifetime, pool: Pool, wakeup: Wakeup, settings: SyncForwarderSettings) -> None:
    await report_batches(
        life,
        pool,
        wakeup,
        edge_cluster_id=settings.edge_cluster_id,
        every_seconds=settings.sync_batch_events_seconds,
    )


def _routes(pool: Pool, wakeup: Wakeup, settings: SyncForwarderSettings) -> list[Any]:
    if not settings.internal_admin_enabled or settings.admin_token is None:
        return routes(pool, wakeup)
    return [*routes(pool, wakeup), *admin_routes(pool, wakeup, settings.admin_token)]

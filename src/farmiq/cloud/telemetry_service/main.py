import asyncio
from collections.abc import Mapping
from functools import partial

from farmiq.cloud.dead_letters import saved
from farmiq.cloud.telemetry_service.api import routes
from farmiq.cloud.telemetry_service.consumer import Counters, StoreMessages
from farmiq.cloud.telemetry_service.jobs import jobs
from farmiq.cloud.telemetry_service.settings import TelemetryServiceSettings
from farmiq.cloud.telemetry_service.topology import WORK_QUEUE, publishing
from farmiq.cloud.telemetry_service.worker import tell_of_aggregates
from farmiq.kit.amqp import Publisher
from farmiq.kit.bus_worker import BusWorker, run_bus_worker
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.sampling import keep_sampling
from farmiq.kit.settings import load
from farmiq.timeseries.loss_totals import LossTotals, sample_losses


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(TelemetryServiceSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    counters = Counters(life.registry)
    worker = BusWorker(
        settings.amqp_url,
        WORK_QUEUE,
        name=life.service,
        batch_messages=settings.consume_batch_messages,
        batch_wait_seconds=settings.consume_batch_wait_ms / 1000,
    )
    publisher = Publisher(settings.amqp_url, name=f"{life.service}-aggregates", topology=publishing())
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        work = StoreMessages(pool, life.clock, counters, settings.announced)
        await publisher.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    run_bus_worker(life, worker, work, metrics=counters, count_saved=partial(saved.count, pool))
                )
                group.create_task(
                    life.until_stopped(tell_of_aggregates(life, pool, publisher, counters.aggregates_told))
                )
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                losses = partial(sample_losses, totals=LossTotals(life.registry))
                group.create_task(life.until_stopped(keep_sampling(life, pool, losses)))
                group.create_task(
                    serve_http(life, settings, routes(pool, settings.admin_token, life.clock, settings.announced))
                )
        finally:
            await publisher.stop()

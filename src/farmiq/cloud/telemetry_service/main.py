import asyncio
from collections.abc import Mapping

from farmiq.cloud.telemetry_service.consumer import consume
from farmiq.cloud.telemetry_service.jobs import jobs
from farmiq.cloud.telemetry_service.settings import TelemetryServiceSettings
from farmiq.cloud.telemetry_service.topology import QUEUE, topology
from farmiq.kit.amqp import Consumer
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.settings import load
from farmiq.timeseries.routes import measurement_routes


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(TelemetryServiceSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    bus = Consumer(
        settings.amqp_url,
        QUEUE,
        name=life.service,
        prefetch=settings.consume_batch_messages * 2,
        topology=topology(),
    )
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        await bus.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(life.until_stopped(consume(life, settings, bus, pool)))
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                group.create_task(serve_http(life, settings, measurement_routes(pool, settings.admin_token)))
        finally:
            await bus.stop()

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from farmiq.cloud import drain
from farmiq.cloud.ingestion.api import routes
from farmiq.cloud.ingestion.bus_routes import bus_routes, note_empty_queues
from farmiq.cloud.ingestion.counters import Counters
from farmiq.cloud.ingestion.dead_letter_routes import dead_letter_routes
from farmiq.cloud.ingestion.jobs import jobs
from farmiq.cloud.ingestion.settings import IngestionSettings
from farmiq.cloud.topology import topology
from farmiq.kit.amqp import BusAway, Publisher
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.sampling import keep_sampling
from farmiq.kit.settings import load

POOL_SIZE: Final = 16
"""A connection is held from the dedupe row to its commit, and the bus confirms in between."""


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(IngestionSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    publisher = Publisher(settings.amqp_url, name=life.service, topology=topology())
    counters = Counters(life.registry, life.clock.now())

    async def bus_ready() -> None:
        if not publisher.is_connected:
            raise BusAway("not connected to RabbitMQ")

    async with await open_pool(settings.database_url, service=life.service, size_max=POOL_SIZE) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        life.ready_when("bus", bus_ready)
        life.remark_on("intake", lambda: drain.remark(pool))
        for_admins = (
            [
                *dead_letter_routes(pool, publisher, settings.amqp_url, settings.admin_token, life.clock),
                *bus_routes(pool, publisher, settings.admin_token),
            ]
            if settings.admin_token
            else []
        )
        await publisher.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(life.until_stopped(publisher.wait_connected()))
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                group.create_task(life.until_stopped(keep_sampling(life, pool, counters.sample)))
                group.create_task(life.until_stopped(keep_sampling(life, pool, partial(note_empty_queues, publisher))))
                group.create_task(
                    serve_http(
                        life,
                        settings,
                        [*routes(pool, publisher, settings, counters, life.clock), *for_admins],
                        body_bytes_max=settings.ingestion_body_bytes_max,
                    )
                )
        finally:
            await publisher.stop()

import asyncio
from collections.abc import Mapping
from typing import Final

from farmiq.cloud.ingestion import store
from farmiq.cloud.ingestion.api import routes
from farmiq.cloud.ingestion.counters import Counters
from farmiq.cloud.ingestion.settings import IngestionSettings
from farmiq.cloud.ingestion.topology import topology
from farmiq.kit.amqp import BusAway, Publisher
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool, open_pool, ping, require_schema
from farmiq.kit.settings import load

POOL_SIZE: Final = 16
"""A connection is held from the dedupe row to its commit, and the bus confirms in between."""
PARTITION_SECONDS: Final = 24 * 3600.0

log = get_logger(__name__)


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(IngestionSettings, environ)
    publisher = Publisher(settings.amqp_url, name=life.service, topology=topology())
    counters = Counters(life.registry, life.clock.now())

    async def bus_ready() -> None:
        if not publisher.is_connected:
            raise BusAway("not connected to RabbitMQ")

    async with await open_pool(settings.database_url, service=life.service, size_max=POOL_SIZE) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        life.ready_when("bus", bus_ready)
        await publisher.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(life.until_stopped(publisher.wait_connected()))
                group.create_task(life.until_stopped(_prepare_months(life, pool)))
                group.create_task(
                    serve_http(
                        life,
                        settings,
                        routes(pool, publisher, settings, counters),
                        body_bytes_max=settings.ingestion_body_bytes_max,
                    )
                )
        finally:
            await publisher.stop()


async def _prepare_months(life: Lifetime, pool: Pool) -> None:
    is_running = True
    while is_running:
        try:
            async with pool.acquire() as connection:
                await store.prepare_months(connection)
        except RETRY as error:
            log.warning("partitions_not_prepared", reason=str(error) or type(error).__name__)
        is_running = await life.pause(PARTITION_SECONDS)

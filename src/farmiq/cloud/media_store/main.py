import asyncio
from collections.abc import Mapping
from contextlib import closing
from functools import partial

from farmiq.cloud.dead_letters import saved
from farmiq.cloud.media_store.consumer import KeepAnnouncements
from farmiq.cloud.media_store.counters import Counters, watch_waiting
from farmiq.cloud.media_store.edge_routes import Door, edge_routes
from farmiq.cloud.media_store.jobs import jobs
from farmiq.cloud.media_store.settings import MediaStoreSettings
from farmiq.cloud.media_store.thumbnails import Thumbnails
from farmiq.cloud.media_store.topology import WORK_QUEUE
from farmiq.cloud.media_store.viewer_routes import viewer_routes
from farmiq.cloud.viewers import viewer_guard
from farmiq.contracts.limits import HTTP_BODY_BYTES_MAX
from farmiq.kit.bus_worker import BusWorker, run_bus_worker
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.picture_worker import PictureWorker
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load

POOL_SIZE = 8
"""For everything but comparisons, each of which holds a connection of its own."""


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings, place = load(MediaStoreSettings, environ), load(ObjectStoreSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    counters = Counters(life.registry)
    pool_size = POOL_SIZE + settings.media_checks_at_once
    with closing(open_store(place)) as objects, closing(open_store(place, settings.s3_public_endpoint)) as signer:
        async with (
            await open_pool(settings.database_url, service=life.service, size_max=pool_size) as pool,
            PictureWorker() as pictures,
        ):
            await require_schema(pool)
            life.ready_when("database", lambda: ping(pool))
            life.ready_when("object_store", lambda: objects.require_bucket(place.media_bucket))
            door = Door(pool, objects, signer, place.media_bucket, settings, counters, life.clock)
            thumbnails = Thumbnails(pool, objects, pictures, settings, counters)
            guard = viewer_guard(pool, settings.admin_token)
            routes = [*edge_routes(door), *viewer_routes(door, thumbnails, guard)]
            work = KeepAnnouncements(pool, counters)
            async with asyncio.TaskGroup() as group:
                worker, count_saved = _worker(life, settings), partial(saved.count, pool)
                group.create_task(run_bus_worker(life, worker, work, metrics=counters, count_saved=count_saved))
                group.create_task(life.until_stopped(watch_waiting(life, pool, counters)))
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                group.create_task(serve_http(life, settings, routes, body_bytes_max=HTTP_BODY_BYTES_MAX))


def _worker(life: Lifetime, settings: MediaStoreSettings) -> BusWorker:
    return BusWorker(
        settings.amqp_url,
        WORK_QUEUE,
        name=life.service,
        batch_messages=settings.consume_batch_messages,
        batch_wait_seconds=settings.consume_batch_wait_ms / 1000,
    )

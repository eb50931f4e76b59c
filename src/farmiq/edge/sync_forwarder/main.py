import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from farmiq.edge.sync_forwarder.api import admin_routes, routes
from farmiq.edge.sync_forwarder.cloud import Cloud
from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.edge.sync_forwarder.delivery import Delivery
from farmiq.edge.sync_forwarder.held import HeldSubjects
from farmiq.edge.sync_forwarder.jobs import jobs
from farmiq.edge.sync_forwarder.pictures.api import picture_admin_routes, picture_routes
from farmiq.edge.sync_forwarder.pictures.bandwidth import Bandwidth
from farmiq.edge.sync_forwarder.pictures.cloud import CloudMedia
from farmiq.edge.sync_forwarder.pictures.counters import PictureCounters
from farmiq.edge.sync_forwarder.pictures.settlement import PictureSettlement
from farmiq.edge.sync_forwarder.pictures.upload import Uploader
from farmiq.edge.sync_forwarder.pictures.wanted import answer_wanted
from farmiq.edge.sync_forwarder.pictures.worker import PictureWorker
from farmiq.edge.sync_forwarder.reporter import report_batches
from farmiq.edge.sync_forwarder.resending import ask_epochs, keep_resending
from farmiq.edge.sync_forwarder.room import room_routes
from farmiq.edge.sync_forwarder.sampler import sample
from farmiq.edge.sync_forwarder.settings import SyncForwarderSettings
from farmiq.edge.sync_forwarder.settlement import Settlement
from farmiq.edge.sync_forwarder.worker import Worker
from farmiq.kit.http_client import open_session
from farmiq.kit.http_server import is_loopback, serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Pool, open_pool, ping, require_schema
from farmiq.kit.s3 import ObjectStore
from farmiq.kit.settings import load
from farmiq.outbox.floors import Floors
from farmiq.outbox.wakeup import Wakeup, listen

POOL_REST = 8
"""Connections for everything that is not a request to the cloud: the claims, the API, samples, jobs."""

log = get_logger(__name__)


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(SyncForwarderSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    rng = random.Random()  # noqa: S311 - spreads retries, guards nothing
    counters, picture_counters = Counters(life.registry), PictureCounters(life.registry)
    wakeup, picture_wakeup = Wakeup(), Wakeup()
    size_max = POOL_REST + settings.sync_requests_in_flight + settings.media_sync_parallel
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
        cloud = Cloud(
            session, settings.batch_url, settings.cloud_ingestion_token, life.clock, settings.sync_compression
        )
        replica = instance_id(life.service, environ)
        held = HeldSubjects(life.clock, rng)
        settlement = Settlement(pool, settings, counters, rng, held)
        floors = Floors()
        delivery = Delivery(life, pool, cloud, settings, counters, settlement, floors, instance_id=replica)
        worker = Worker(life, pool, delivery, floors, wakeup, settings, counters, rng)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            group.create_task(_send_pictures(life, pool, picture_wakeup, settings, picture_counters, rng, replica))
            group.create_task(
                life.until_stopped(listen(settings.database_url, wakeup, picture_wakeup, service=life.service))
            )
            group.create_task(
                life.until_stopped(
                    sample(life, pool, counters, picture_counters, held, wakeup, settings.edge_cluster_id)
                )
            )
            group.create_task(life.until_stopped(keep_resending(life, pool, wakeup, picture_wakeup, counters)))
            asking = ask_epochs(life, pool, delivery, every_seconds=settings.sync_epoch_seconds)
            group.create_task(life.until_stopped(asking))
            group.create_task(life.until_stopped(keep_jobs(life, pool, housekeeping, replica)))
            if settings.sync_batch_events_seconds:
                group.create_task(life.until_stopped(_report(life, pool, wakeup, settings)))
            group.create_task(serve_http(life, settings, _routes(pool, wakeup, picture_wakeup, settings)))


async def _send_pictures(
    life: Lifetime,
    pool: Pool,
    wakeup: Wakeup,
    settings: SyncForwarderSettings,
    counters: PictureCounters,
    rng: random.Random,
    replica: str,
) -> None:
    if settings.cloud_media_url is None:
        log.warning("pictures_not_sent", reason="CLOUD_MEDIA_URL is not set: pictures stay at the edge")
        return
    # Connections of its own, so that no upload takes one from an event.
    async with (
        _edge_store(settings) as store,
        open_session(
            life.service,
            total_seconds=settings.sync_request_seconds,
            connections_max=3 * settings.media_sync_parallel,
        ) as session,
    ):
        clock = life.clock
        bandwidth = Bandwidth(settings.media_sync_bytes_per_second, clock.monotonic())
        uploader = Uploader(session, store, bandwidth, clock, settings.media_sync_stall_seconds)
        cloud = CloudMedia(session, settings.cloud_media_url, settings.cloud_ingestion_token, clock)
        settlement = PictureSettlement(pool, settings, counters, rng, clock)
        worker = PictureWorker(life, pool, cloud, uploader, settlement, wakeup, settings, counters, instance_id=replica)
        every_seconds = settings.media_sync_wanted_seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            asking = answer_wanted(life, pool, cloud, wakeup, every_seconds=every_seconds)
            group.create_task(life.until_stopped(asking))


@asynccontextmanager
async def _edge_store(settings: SyncForwarderSettings) -> AsyncIterator[ObjectStore]:
    store = ObjectStore(
        settings.s3_endpoint or "",
        access_key=settings.s3_access_key or "",
        secret_key=settings.s3_secret_key or "",
        region=settings.s3_region,
    )
    try:
        yield store
    finally:
        store.close()


async def _report(life: Lifetime, pool: Pool, wakeup: Wakeup, settings: SyncForwarderSettings) -> None:
    await report_batches(
        life,
        pool,
        wakeup,
        edge_cluster_id=settings.edge_cluster_id,
        every_seconds=settings.sync_batch_events_seconds,
    )


def _routes(pool: Pool, wakeup: Wakeup, picture_wakeup: Wakeup, settings: SyncForwarderSettings) -> list[Any]:
    token = settings.admin_token
    is_loopback_only = is_loopback(settings.host)
    reading = [
        *routes(pool, (wakeup, picture_wakeup), token, is_loopback_only=is_loopback_only),
        *picture_routes(pool, token),
        *room_routes(settings.edge_data_dir, token),
    ]
    if not settings.internal_admin_enabled or token is None:
        return reading
    return [
        *reading,
        *admin_routes(pool, wakeup, token, settings.edge_cluster_id),
        *picture_admin_routes(pool, picture_wakeup, token),
    ]

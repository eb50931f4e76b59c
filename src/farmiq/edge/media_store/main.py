import asyncio
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta

from farmiq.contracts.limits import HTTP_BODY_BYTES_MAX
from farmiq.edge.media_store.api import device_routes
from farmiq.edge.media_store.counters import Counters
from farmiq.edge.media_store.inspection import Inspector, require_bucket
from farmiq.edge.media_store.jobs import jobs
from farmiq.edge.media_store.read_routes import read_routes
from farmiq.edge.media_store.settings import MediaRetentionSettings, MediaStoreSettings
from farmiq.edge.media_store.upload_routes import upload_routes
from farmiq.edge.media_store.worker import count_pictures, declare_losses, look_for_pictures
from farmiq.kit.http_server import require_bearer, serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.picture_worker import PictureWorker
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load
from farmiq.outbox import Announcer
from farmiq.outbox.wakeup import Wakeup, listen


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings, store_settings = load(MediaStoreSettings, environ), load(ObjectStoreSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    bucket = store_settings.media_bucket
    kept = timedelta(days=load(MediaRetentionSettings, environ).media_retention_days)
    async with await open_pool(settings.database_url, service=life.service) as pool, PictureWorker() as pictures:
        await require_schema(pool)
        with (
            closing(open_store(store_settings)) as objects,
            closing(open_store(store_settings, settings.s3_public_endpoint)) as signer,
        ):
            life.ready_when("database", lambda: ping(pool))
            life.ready_when("object_store", lambda: require_bucket(objects, bucket))
            announcer, counters, wakeup = Announcer(pool), Counters(life.registry), Wakeup()
            inspector = Inspector(pool, objects, pictures, settings, announcer, counters, life.clock)
            disk = settings.disk()
            routes = [
                *device_routes(pool, signer, bucket, inspector, settings, disk, life.clock),
                *upload_routes(pool, objects, settings, disk, counters, life.clock),
                *read_routes(pool, signer, [require_bearer(settings.admin_token)], life.clock, kept),
            ]
            loops = (
                listen(settings.database_url, wakeup, service=life.service),
                look_for_pictures(life, inspector, wakeup, settings.media_checks_at_once),
                count_pictures(life, inspector),
                declare_losses(life, inspector),
                keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)),
            )
            try:
                async with asyncio.TaskGroup() as group:
                    for loop in loops:
                        group.create_task(life.until_stopped(loop))
                    group.create_task(serve_http(life, settings, routes, body_bytes_max=HTTP_BODY_BYTES_MAX))
            finally:
                await announcer.close()

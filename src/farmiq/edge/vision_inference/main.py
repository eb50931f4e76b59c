import asyncio
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta

from farmiq.contracts.limits import HTTP_BODY_BYTES_MAX
from farmiq.edge.vision_inference.api import inference_routes
from farmiq.edge.vision_inference.at_work import Models
from farmiq.edge.vision_inference.counters import Counters
from farmiq.edge.vision_inference.jobs import jobs
from farmiq.edge.vision_inference.looking import Looker
from farmiq.edge.vision_inference.model_routes import model_routes
from farmiq.edge.vision_inference.settings import InferenceRetentionSettings, InferenceSettings
from farmiq.edge.vision_inference.worker import keep_model, look_for_jobs, rescue_jobs, sample
from farmiq.kit.http_server import require_bearer, serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import Connection, open_pool, ping, require_schema
from farmiq.kit.s3_settings import ObjectStoreSettings, open_store
from farmiq.kit.settings import load
from farmiq.outbox import Announcer
from farmiq.outbox.wakeup import Wakeup, listen


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings, store_settings = load(InferenceSettings, environ), load(ObjectStoreSettings, environ)
    housekeeping, name = scheduled(jobs(environ), environ), instance_id(life.service, environ)
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        with closing(open_store(store_settings)) as objects:
            models = Models(pool, objects, settings.limits, settings.inference_model_bytes_max)
            life.ready_when("database", lambda: ping(pool))
            life.ready_when("object_store", lambda: objects.require_bucket(store_settings.media_bucket))
            life.ready_when("model", models.require)
            announcer, counters, wakeup = Announcer(pool), Counters(life.registry), Wakeup()
            looker = Looker(
                pool, objects, models, announcer, counters, life.clock,
                settings.media_bytes_max, settings.inference_attempts_max,
            )  # fmt: skip
            guards = [require_bearer(settings.admin_token)]
            kept = timedelta(days=load(InferenceRetentionSettings, environ).inference_result_retention_days)

            async def kept_since(_connection: Connection) -> datetime:
                return life.clock.now() - kept

            routes = [*inference_routes(pool, guards, wakeup, kept_since), *model_routes(pool, models, guards, wakeup)]
            attempts_max = settings.inference_attempts_max
            loops = (
                listen(settings.database_url, wakeup, service=life.service),
                keep_model(life, pool, models, settings.inference_model, counters, wakeup),
                rescue_jobs(life, pool, attempts_max, counters, wakeup),
                sample(life, pool, counters),
                keep_jobs(life, pool, housekeeping, name),
            )
            try:
                async with asyncio.TaskGroup() as group:
                    # Not cut when the service is to stop: it ends by itself, after the pictures that it has.
                    group.create_task(look_for_jobs(life, looker, wakeup, name, settings.inference_at_once))
                    for loop in loops:
                        group.create_task(life.until_stopped(loop))
                    group.create_task(serve_http(life, settings, routes, body_bytes_max=HTTP_BODY_BYTES_MAX))
            finally:
                await models.close()
                await announcer.close()

import asyncio
from collections.abc import Mapping
from datetime import timedelta

from farmiq.contracts.limits import HTTP_BODY_BYTES_MAX
from farmiq.edge.weighvision_session.api import routes
from farmiq.edge.weighvision_session.counters import Counters
from farmiq.edge.weighvision_session.jobs import jobs
from farmiq.edge.weighvision_session.settings import SessionRetentionSettings, SessionSettings
from farmiq.edge.weighvision_session.worker import watch_sessions
from farmiq.kit.http_server import serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.settings import load
from farmiq.outbox import Announcer


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(SessionSettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        announcer, counters = Announcer(pool), Counters(life.registry)
        kept = timedelta(days=load(SessionRetentionSettings, environ).kept_days)
        handlers = routes(pool, settings.admin_token, life.clock, announcer, kept)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    life.until_stopped(watch_sessions(life, pool, settings.patience, announcer, counters))
                )
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                group.create_task(serve_http(life, settings, handlers, body_bytes_max=HTTP_BODY_BYTES_MAX))
        finally:
            await announcer.close()

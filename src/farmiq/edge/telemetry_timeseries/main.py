import asyncio
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from farmiq.edge.telemetry_timeseries.alert_routes import alert_routes
from farmiq.edge.telemetry_timeseries.api import device_routes
from farmiq.edge.telemetry_timeseries.counters import Counters, sample
from farmiq.edge.telemetry_timeseries.fleet_routes import fleet_routes
from farmiq.edge.telemetry_timeseries.jobs import jobs
from farmiq.edge.telemetry_timeseries.settings import TelemetrySettings
from farmiq.edge.telemetry_timeseries.worker import send_aggregates
from farmiq.kit.http_server import require_bearer, serve_http
from farmiq.kit.jobs import keep_jobs, scheduled
from farmiq.kit.lifecycle import Lifetime, instance_id
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.sampling import keep_sampling
from farmiq.kit.settings import load
from farmiq.outbox import Announcer
from farmiq.timeseries.routes import measurement_routes


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(TelemetrySettings, environ)
    housekeeping = scheduled(jobs(environ), environ)
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        announcer = Announcer(pool)
        counters, online_timeout = Counters(life.registry), timedelta(seconds=settings.online_timeout)
        guards = [require_bearer(settings.admin_token)]
        routes = [
            *measurement_routes(pool, guards, admin_guards=guards),
            *device_routes(pool, settings, life.clock),
            *fleet_routes(pool, settings, life.clock),
            *alert_routes(pool, settings.admin_token),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(life.until_stopped(send_aggregates(life, pool, announcer)))
                group.create_task(
                    life.until_stopped(keep_jobs(life, pool, housekeeping, instance_id(life.service, environ)))
                )
                figures = partial(sample, counters=counters, clock=life.clock, online_timeout=online_timeout)
                group.create_task(life.until_stopped(keep_sampling(life, pool, figures)))
                group.create_task(serve_http(life, settings, routes))
        finally:
            await announcer.close()

from collections.abc import Mapping

from farmiq.edge.telemetry_timeseries.settings import TelemetrySettings
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import open_pool, ping, require_schema
from farmiq.kit.settings import load
from farmiq.timeseries.routes import measurement_routes


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(TelemetrySettings, environ)
    async with await open_pool(settings.database_url, service=life.service) as pool:
        await require_schema(pool)
        life.ready_when("database", lambda: ping(pool))
        await serve_http(life, settings, measurement_routes(pool, settings.admin_token))

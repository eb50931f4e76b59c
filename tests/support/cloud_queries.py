"""What can be asked of cloud-telemetry-service, over HTTP, without the bus that it otherwise reads from."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from farmiq.cloud import viewers
from farmiq.cloud.telemetry_service.api import routes
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.postgres import Pool, open_pool
from farmiq.kit.settings import HttpSettings, load
from support.query_api import TOKEN, QueryApi
from support.service_process import running


@asynccontextmanager
async def cloud_api(database_url: str) -> AsyncIterator[QueryApi]:
    async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
        async with await open_pool(database_url, service=life.service) as pool:
            await serve_http(life, load(HttpSettings, environ), routes(pool, TOKEN, life.clock))

    async with running(serve, "cloud-telemetry-service", {}) as url, aiohttp.ClientSession() as session:
        yield QueryApi(session, url)


async def viewer_of(pool: Pool, *tenant_ids: str) -> str:
    """A token that reads these tenants."""
    async with pool.acquire() as connection:
        return (await viewers.add(connection, "ann", tenant_ids)).token

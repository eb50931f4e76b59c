"""Every HTTP service, running for a moment, to be asked what it offers."""

import asyncio
import importlib
import json
import logging
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import structlog
from prometheus_client import CollectorRegistry

from farmiq.contracts.services import SERVICES, Service
from farmiq.kit.lifecycle import Lifetime, Serve
from farmiq.kit.migrations import migrate
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres, create_role_and_database

START_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Offer:
    """What one service says of itself."""

    service: Service
    openapi: dict[str, Any]
    registry: CollectorRegistry


async def running_services(folder: Path) -> list[Offer]:
    # What they log, mostly that their neighbours are away, is not what was asked.
    structlog.configure(processors=[_say_nothing])
    logging.disable()
    async with _databases(folder) as urls:
        environ = _environment(folder, urls)
        return await asyncio.gather(*(_ask(service, environ) for service in SERVICES if service.port is not None))


def _say_nothing(_logger: Any, _method: str, _event: Any) -> Any:
    raise structlog.DropEvent


async def _ask(service: Service, environ: Mapping[str, str]) -> Offer:
    life, port = Lifetime(service.name), free_port()
    serve: Serve = importlib.import_module(service.module).serve
    tier = {**environ, "PORT": str(port), "DATABASE_URL": environ.get(f"{service.tier.upper()}_DATABASE_URL", "")}
    running = asyncio.create_task(_run(serve, tier, life))
    try:
        return Offer(service, await _openapi(port, running), life.registry)
    finally:
        life.stopping.set()
        await running


async def _run(serve: Serve, environ: Mapping[str, str], life: Lifetime) -> None:
    await serve(environ, life)


async def _openapi(port: int, running: "asyncio.Task[None]") -> dict[str, Any]:
    """As soon as it listens. One that ends instead says why."""
    async with asyncio.timeout(START_SECONDS_MAX), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/api-docs/openapi.json") as answer:
                    found: dict[str, Any] = json.loads(await answer.text())
                    return found
            except aiohttp.ClientConnectionError:
                if running.done():
                    running.result()
                    raise
                await asyncio.sleep(LOOK_SECONDS)


def _environment(folder: Path, urls: Mapping[str, str]) -> dict[str, str]:
    """Whatever a service needs to start. Nobody listens on the other servers' port."""
    nobody = free_port()
    return {
        **urls,
        "HOST": "127.0.0.1",
        "MQTT_URL": f"mqtt://user:password@127.0.0.1:{nobody}",
        "AMQP_URL": f"amqp://user:password@127.0.0.1:{nobody}/",
        "ADMIN_TOKEN": secrets.token_urlsafe(16),
        "INTERNAL_ADMIN_ENABLED": "true",
        "S3_ENDPOINT": f"http://127.0.0.1:{nobody}",
        "S3_ACCESS_KEY": "key",
        "S3_SECRET_KEY": "secret",
        "MEDIA_BUCKET": "media",
        "CLOUD_INGESTION_URL": f"http://127.0.0.1:{nobody}",
        "CLOUD_INGESTION_TOKEN": "token",
        "CLOUD_MEDIA_URL": f"http://127.0.0.1:{nobody}",
        "EDGE_CLUSTER_ID": "edge-1",
        "JOB_SCHEDULER_ENABLED": "true",
        "CONSOLE_STATE_DIR": str(folder / "console"),
        "CONSOLE_TENANTS": "demo",
    }


@asynccontextmanager
async def _databases(folder: Path) -> AsyncIterator[dict[str, str]]:
    """The edge's and the cloud's, with their schema, in a cluster that is gone afterwards."""
    server = Postgres(folder / "postgres", free_port(), secrets.token_urlsafe(16), is_throwaway=True)
    server.prepare()
    process = await asyncio.create_subprocess_exec(
        *server.command(), env=server.environment(), cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await _until_it_answers(server)
        urls = {}
        for tier in ("edge", "cloud"):
            urls[f"{tier.upper()}_DATABASE_URL"] = await _make_database(server, tier)
        yield urls
    finally:
        process.send_signal(signal.SIGINT)
        await process.wait()


async def _make_database(server: Postgres, tier: str) -> str:
    password = secrets.token_urlsafe(16)
    connection = await asyncpg.connect(server.url())
    try:
        await create_role_and_database(connection, tier, password)
    finally:
        await connection.close()
    url = server.url(tier, password, tier)
    await migrate(url, f"farmiq.{tier}.migrations")
    return url


async def _until_it_answers(server: Postgres) -> None:
    async with asyncio.timeout(START_SECONDS_MAX):
        while True:
            try:
                return await server.probe()
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(LOOK_SECONDS)

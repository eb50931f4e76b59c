"""A real cloud to be measured: PostgreSQL that syncs, RabbitMQ, cloud-ingestion and cloud-telemetry-service."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import aiormq
import asyncpg
import psutil

from cloud_edge import EDGE, TENANT
from farmiq.cloud.ingestion import edges
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres, create_role_and_database
from farmiq.stack.rabbitmq import Epmd, RabbitMq
from processes import START_SECONDS_MAX, server, service, until


class Cloud:
    """`pool` looks at the database; `processes` are those whose cost is counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_urlsafe(24)
        self.processes: dict[str, psutil.Process] = {}
        self.pool: Pool
        self.database_url: str
        self.entrance_url: str
        self._postgres = Postgres(folder / "postgres", free_port(), secrets.token_urlsafe(16))
        self._epmd = Epmd(free_port())
        self._rabbitmq = RabbitMq(
            folder / "rabbitmq",
            free_port(),
            free_port(),
            self._epmd.port,
            secrets.token_urlsafe(16),
            secrets.token_hex(16),
        )

    @property
    def amqp_url(self) -> str:
        return self._rabbitmq.url()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Servers, a migrated database that knows one edge, and the entrance."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(server(self._epmd, self.folder / "epmd.log"))
            for name, program in (("rabbitmq", self._rabbitmq), ("postgres", self._postgres)):
                process = await stack.enter_async_context(server(program, self.folder / f"{name}.log"))
                self.processes[name] = process
            self.database_url = await self._make_database()
            self.pool = await stack.enter_async_context(await open_pool(self.database_url, service="benchmark"))
            async with self.pool.acquire() as connection:
                await edges.register(connection, edge_cluster_id=EDGE, tenant_ids=[TENANT], token=self.token)
            self.entrance_url = await stack.enter_async_context(self._service("cloud-ingestion", "ingestion"))
            yield

    @asynccontextmanager
    async def telemetry_service(self, *, is_awaited: bool = True) -> AsyncIterator[None]:
        async with self._service("cloud-telemetry-service", "telemetry-service", is_awaited=is_awaited):
            yield

    async def forget_what_nobody_reads(self) -> None:
        """What went to services that do not run here. It would grow from round to round."""
        connection = await aiormq.connect(self.amqp_url)
        channel = await connection.channel()
        for name, queue in WORK_QUEUES.items():
            if name != "cloud-telemetry-service":
                await channel.queue_purge(queue.name)
        await connection.close()

    @asynccontextmanager
    async def _service(self, name: str, counted_as: str, *, is_awaited: bool = True) -> AsyncIterator[str]:
        port = free_port()
        environ = {
            "DATABASE_URL": self.database_url,
            "AMQP_URL": self.amqp_url,
            "ADMIN_TOKEN": secrets.token_urlsafe(16),
            "PORT": str(port),
        }
        url = f"http://127.0.0.1:{port}"
        async with service(name, environ, self.folder / f"{name}.log") as process:
            if is_awaited:
                await _until_ready(url)
            self.processes[counted_as] = process
            yield url
            del self.processes[counted_as]

    async def _make_database(self) -> str:
        password = secrets.token_urlsafe(16)
        connection = await asyncpg.connect(self._postgres.url())
        try:
            await create_role_and_database(connection, "cloud", password)
        finally:
            await connection.close()
        url = self._postgres.url("cloud", password, "cloud")
        await migrate(url, "farmiq.cloud.migrations")
        return url


async def _until_ready(url: str) -> None:
    async def is_ready() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/api/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async with asyncio.timeout(START_SECONDS_MAX):
        await until(is_ready)

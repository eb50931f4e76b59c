"""A real edge to be measured: PostgreSQL that syncs, Mosquitto, edge-ingress-gateway, and node-forwarders that reach them."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp
import asyncpg
import psutil

from farmiq.edge.ingress_gateway import devices
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.mosquitto import Mosquitto
from farmiq.stack.mosquitto_users import MqttUser, gateway_rights, operator_rights
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres, create_role_and_database
from farmiq.timeseries.stream import Origin
from node import BARN, FARM, TENANT
from processes import START_SECONDS_MAX, server, service, until


def origin_of(device_id: str) -> Origin:
    return Origin(TENANT, FARM, BARN, device_id)


class Edge:
    """`pool` looks at the database; `processes` are those whose cost is counted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gateway_user = MqttUser("edge-ingress-gateway", secrets.token_urlsafe(16), gateway_rights())
        # Plays every node, so its rights are not those of one.
        self.nodes_user = MqttUser("nodes", secrets.token_urlsafe(16), operator_rights())
        self.broker = Mosquitto(
            folder / "mosquitto", free_port(), secrets.token_urlsafe(16), (self.gateway_user, self.nodes_user)
        )
        self.postgres = Postgres(folder / "postgres", free_port(), secrets.token_urlsafe(16))
        self.processes: dict[str, psutil.Process] = {}
        self.pool: Pool

    @property
    def nodes_url(self) -> str:
        return self.broker.url(self.nodes_user.name, self.nodes_user.password)

    @contextmanager
    def counted(self, name: str, process: psutil.Process) -> Iterator[None]:
        """Its cost counts while the block lasts."""
        self.processes[name] = process
        try:
            yield
        finally:
            del self.processes[name]

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        """A cluster with a migrated edge database. Yields its URL."""
        async with server(self.postgres, self.folder / "postgres.log") as process:
            with self.counted("postgres", process):
                url = await self._make_database()
                async with await open_pool(url, service="benchmark") as pool:
                    self.pool = pool
                    yield url

    async def until_gateway_is_ready(self) -> None:
        """Its subscriptions are in force: what is published from now on reaches it."""

        async def is_ready() -> bool:
            try:
                async with aiohttp.ClientSession() as session, session.get(self._gateway_url) as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

        async with asyncio.timeout(START_SECONDS_MAX):
            await until(is_ready)

    @asynccontextmanager
    async def gateway(self, database_url: str) -> AsyncIterator[None]:
        port = free_port()
        self._gateway_url = f"http://127.0.0.1:{port}/api/ready"
        environ = {
            "DATABASE_URL": database_url,
            "MQTT_URL": self.broker.url(self.gateway_user.name, self.gateway_user.password),
            "ADMIN_TOKEN": secrets.token_urlsafe(16),
            "PORT": str(port),
        }
        async with service("edge-ingress-gateway", environ, self.folder / "gateway.log") as process:
            with self.counted("gateway", process):
                yield

    @asynccontextmanager
    async def broker_running(self) -> AsyncIterator[None]:
        async with server(self.broker, self.folder / "mosquitto.log") as process:
            with self.counted("mosquitto", process):
                yield

    async def _make_database(self) -> str:
        password = secrets.token_urlsafe(16)
        connection = await asyncpg.connect(self.postgres.url())
        try:
            await create_role_and_database(connection, "edge", password)
        finally:
            await connection.close()
        url = self.postgres.url("edge", password, "edge")
        await migrate(url, "farmiq.edge.migrations")
        return url

    async def register(self, device_ids: Sequence[str]) -> None:
        async with self.pool.acquire() as connection, connection.transaction():
            for device_id in device_ids:
                await devices.register(
                    connection, tenant_id=TENANT, farm_id=FARM, barn_id=BARN, device_id=device_id, kind="node"
                )


class Costs:
    """What each process has used, from one moment to another."""

    def __init__(self, processes: dict[str, psutil.Process]) -> None:
        self._processes = dict(processes)
        self._before = {name: _cpu_seconds(process) for name, process in self._processes.items()}

    def by_process(self) -> dict[str, dict[str, float]]:
        """CPU seconds since the beginning, and the memory that is its own."""
        return {
            name: {
                "cpu_seconds": round(_cpu_seconds(process) - self._before[name], 2),
                "memory_mb": round(_memory_bytes(process) / 1e6, 1),
            }
            for name, process in self._processes.items()
        }


def _of_family(process: psutil.Process, read: Callable[[psutil.Process], float]) -> float:
    """Added up. One may end while it is looked at: PostgreSQL's vacuum does."""
    total = read(process)
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += read(child)
    return total


def _cpu_seconds(process: psutil.Process) -> float:
    """With children that have ended: PostgreSQL has one for each connection."""
    times = process.cpu_times()
    return times.children_user + times.children_system + _of_family(process, lambda one: sum(one.cpu_times()[:2]))


def _memory_bytes(process: psutil.Process) -> float:
    """Shared buffers are counted once."""
    return _of_family(process, lambda one: one.memory_full_info().pss)

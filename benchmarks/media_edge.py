"""A real edge for pictures to be measured: PostgreSQL and SeaweedFS that sync, Mosquitto, and the services on a picture's way."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from edge import Edge, origin_of
from farmiq.edge.ingress_gateway import devices
from farmiq.stack.object_store import create_bucket
from farmiq.stack.ports import free_port
from farmiq.stack.seaweedfs import PORTS, S3Identity, SeaweedFs
from processes import START_SECONDS_MAX, server, service, until

BUCKET = "bench-media"


class MediaEdge(Edge):
    """`media_url` is where stations ask for upload URLs; `tokens` are theirs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.key = S3Identity("bench", secrets.token_hex(16), secrets.token_hex(16))
        self.objects = SeaweedFs(
            folder / "seaweedfs", {name: free_port() for name in PORTS}, (self.key,), secrets.token_hex(16)
        )
        self.tokens: dict[str, str] = {}
        self.media_url: str

    @asynccontextmanager
    async def running(self, stations: int) -> AsyncIterator[None]:
        """Servers, registered stations, and every service ready."""
        async with AsyncExitStack() as stack:
            database_url = await stack.enter_async_context(self.database())
            await stack.enter_async_context(self.broker_running())
            await stack.enter_async_context(self._object_store())
            await self._register(stations)
            await stack.enter_async_context(self.gateway(database_url))
            environ = self._environ(database_url)
            self.media_url = await stack.enter_async_context(self._service("edge-media-store", environ))
            await stack.enter_async_context(self._service("edge-vision-inference", environ))
            await self.until_gateway_is_ready()
            yield

    @asynccontextmanager
    async def _object_store(self) -> AsyncIterator[None]:
        async with server(self.objects, self.folder / "seaweedfs.log") as process:
            await self.objects.sync_before_answering()
            key = self.key
            await asyncio.to_thread(create_bucket, self.objects.endpoint, key.access_key, key.secret_key, BUCKET)
            with self.counted("seaweedfs", process):
                yield

    async def _register(self, stations: int) -> None:
        self.tokens = {f"station-{number}": secrets.token_urlsafe(24) for number in range(stations)}
        async with self.pool.acquire() as connection, connection.transaction():
            for device_id, token in self.tokens.items():
                secret = devices.Credential("$7$unused", token)
                await devices.add(connection, origin_of(device_id), "weigh-station", secret)

    def _environ(self, database_url: str) -> dict[str, str]:
        return {
            "DATABASE_URL": database_url,
            "ADMIN_TOKEN": secrets.token_urlsafe(16),
            "S3_ENDPOINT": self.objects.endpoint,
            "S3_ACCESS_KEY": self.key.access_key,
            "S3_SECRET_KEY": self.key.secret_key,
            "MEDIA_BUCKET": BUCKET,
            # What a station may ask for in a minute is a protection, and not what is measured.
            "MEDIA_PRESIGNS_PER_MINUTE": "100000",
        }

    @asynccontextmanager
    async def _service(self, name: str, environ: dict[str, str]) -> AsyncIterator[str]:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        async with service(name, {**environ, "PORT": str(port)}, self.folder / f"{name}.log") as process:
            await _until_ready(url)
            with self.counted(name, process):
                yield url


async def _until_ready(url: str) -> None:
    async def is_ready() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/api/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async with asyncio.timeout(START_SECONDS_MAX):
        await until(is_ready)

"""A service that shows what the test wants it to show, a receiver of webhooks, and a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry

from farmiq.alerting.webhook import Notice
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.settings import HttpSettings, load
from support.service_process import running


class MovedClock(Clock):
    """The machine's time, and as much later as the test says."""

    def __init__(self) -> None:
        self._later = timedelta(0)

    def move(self, **by: float) -> None:
        self._later += timedelta(**by)

    def now(self) -> datetime:
        return super().now() + self._later

    def monotonic(self) -> float:
        return super().monotonic() + self._later.total_seconds()


@asynccontextmanager
async def showing(service: str, declare: Callable[[CollectorRegistry], None]) -> AsyncIterator[str]:
    """A real service that shows these metrics. Yields its address."""

    async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
        declare(life.registry)
        await serve_http(life, load(HttpSettings, environ), [])

    async with running(serve, service, {}) as url:
        yield url


class Receiver:
    """Whoever is called by the webhook. Answers with `answers` first, then 204."""

    def __init__(self, *answers: web.StreamResponse) -> None:
        self.url = ""
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self._answers = list(answers)
        self.came = asyncio.Event()

    @property
    def notices(self) -> list[Notice]:
        return [msgspec.json.decode(body, type=Notice) for _, body in self.calls]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.calls.append((headers, await request.read()))
        self.came.set()
        return self._answers.pop(0) if self._answers else web.Response(status=204)


@asynccontextmanager
async def receiving(*answers: web.StreamResponse) -> AsyncIterator[Receiver]:
    receiver = Receiver(*answers)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # the type leaves the sockets out
    receiver.url = f"http://127.0.0.1:{port}/told"
    try:
        yield receiver
    finally:
        await runner.cleanup()

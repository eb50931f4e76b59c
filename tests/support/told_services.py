"""The farm's services as the console sees them, all behind one port: what was asked of them, and answers that a test chooses."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web

from farmiq.contracts.services import SERVICES


class Asked(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: dict[str, str]
    body: dict[str, Any]

    @property
    def tenant(self) -> str | None:
        """The tenant that the question is limited to."""
        return self.query.get("tenant_id") or self.body.get("tenant_id") or self.body.get("tenantId")


class ToldServices:
    """`answers` are given by path, the first pattern that fits; what has no answer is away."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self.answers: dict[str, Any] = {}

    def environ(self) -> Mapping[str, str]:
        return {one.url_variable: self.url for one in SERVICES if one.port and one.name != "console"}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        body = msgspec.json.decode(text) if text else {}
        self.asked.append(Asked(request.method, request.path, dict(request.query), body))
        for pattern, told in self.answers.items():
            if re.fullmatch(pattern, request.path):
                return web.json_response(told(request) if callable(told) else told)
        return web.json_response({"error": {"code": "away", "message": "not now"}}, status=503)


@asynccontextmanager
async def told_services() -> AsyncIterator[ToldServices]:
    services = ToldServices()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", services.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    services.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield services
    await runner.cleanup()

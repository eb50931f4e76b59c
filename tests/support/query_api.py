"""The query API as a caller sees it: over HTTP, with a token."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from farmiq.edge.telemetry_timeseries.main import serve
from farmiq.kit.clock import Clock
from support.service_process import running

TOKEN = "for-this-test-only"


class QueryApi:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def ask(self, path: str, token: str = TOKEN, **query: Any) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {token}"}
        async with self._session.get(f"{self._url}{path}", params=query, headers=headers) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str, **query: Any) -> Any:
        status, answer = await self.ask(path, **query)
        assert status == 200, answer
        return answer

    async def file(self, path: str, accept: str | None = None, **query: Any) -> tuple[str, bytes]:
        """Content type and bytes of an export."""
        headers = {"authorization": f"Bearer {TOKEN}"} | ({} if accept is None else {"accept": accept})
        async with self._session.get(f"{self._url}{path}", params=query, headers=headers) as answer:
            body = await answer.read()
            assert answer.status == 200, body
            return answer.headers["content-type"], body

    async def pages(self, path: str, **query: Any) -> list[Any]:
        """Every page of an answer, by following `next`."""
        pages = [await self.get(path, **query)]
        while (after := pages[-1]["next"]) is not None:
            pages.append(await self.get(path, **query, after=after))
            assert len(pages) < 1000, f"{path} does not end"
        return pages


@asynccontextmanager
async def query_api(
    database_url: str, environ: Mapping[str, str] | None = None, clock: Clock | None = None
) -> AsyncIterator[QueryApi]:
    """The edge's service in this loop."""
    variables = {"DATABASE_URL": database_url, "ADMIN_TOKEN": TOKEN, **(environ or {})}
    async with (
        running(serve, "edge-telemetry-timeseries", variables, clock) as url,
        aiohttp.ClientSession() as session,
    ):
        yield QueryApi(session, url)

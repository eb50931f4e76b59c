"""Calls to a neighbour that answers, hangs, floods, redirects or is not there."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from structlog.contextvars import bound_contextvars

from farmiq.kit.http_client import AnswerTooLarge, NeighbourAway, call, open_session
from farmiq.stack.ports import free_port


async def echo(request: web.Request) -> web.Response:
    names = ("x-trace-id", "x-request-id", "authorization", "user-agent", "cookie")
    seen = {name: request.headers.get(name) for name in names}
    answer = web.json_response({"seen": seen, "body": (await request.read()).decode()}, headers={"X-Answer": "yes"})
    answer.set_cookie("session", "sticky")
    return answer


async def hang(_request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def flood(_request: web.Request) -> web.Response:
    return web.Response(body=b"x" * 2000)


async def redirect(_request: web.Request) -> web.Response:
    return web.Response(status=307, headers={"location": "/echo"})


@pytest.fixture
async def neighbour() -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.route("*", f"/{handler.__name__}", handler) for handler in (echo, hang, flood, redirect)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"http://127.0.0.1:{port}"
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session("edge-test", total_seconds=0.5) as session:
        yield session


async def test_the_ids_of_the_work_under_way_are_carried_on(neighbour: str, session: aiohttp.ClientSession) -> None:
    with bound_contextvars(trace_id="trace-1", request_id="req-1"):
        answer = await call(
            session, "POST", f"{neighbour}/echo", body=b"batch", headers={"authorization": "Bearer token"}
        )

    assert (answer.status, answer.headers["x-answer"]) == (200, "yes")
    assert b'"x-trace-id": "trace-1", "x-request-id": "req-1", "authorization": "Bearer token"' in answer.body
    assert b'"user-agent": "farmiq-edge-test/' in answer.body
    assert b'"body": "batch"' in answer.body


async def test_without_any_each_call_gets_ids_of_its_own(neighbour: str, session: aiohttp.ClientSession) -> None:
    first, second = [await call(session, "GET", f"{neighbour}/echo") for _ in range(2)]

    assert b"null, " not in first.body.partition(b"authorization")[0]
    assert first.body != second.body


async def test_cookies_are_not_kept(neighbour: str, session: aiohttp.ClientSession) -> None:
    for _ in range(2):
        assert b'"cookie": null' in (await call(session, "GET", f"{neighbour}/echo")).body


async def test_a_redirect_is_an_answer_and_takes_the_token_nowhere(
    neighbour: str, session: aiohttp.ClientSession
) -> None:
    answer = await call(session, "POST", f"{neighbour}/redirect", headers={"authorization": "Bearer token"})

    assert (answer.status, answer.headers["location"]) == (307, "/echo")


async def test_a_neighbour_that_hangs_is_given_up_in_time(neighbour: str, session: aiohttp.ClientSession) -> None:
    with pytest.raises(NeighbourAway, match="no answer in time"):
        await asyncio.wait_for(call(session, "GET", f"{neighbour}/hang"), 10)


async def test_a_flood_is_not_read_to_its_end(neighbour: str, session: aiohttp.ClientSession) -> None:
    with pytest.raises(AnswerTooLarge, match="more than 1999 bytes"):
        await call(session, "GET", f"{neighbour}/flood", answer_bytes_max=1999)

    assert len((await call(session, "GET", f"{neighbour}/flood", answer_bytes_max=2000)).body) == 2000


async def test_a_neighbour_that_is_not_there_is_away_and_its_credentials_are_not_told(
    session: aiohttp.ClientSession,
) -> None:
    url = f"http://user:hunter2@127.0.0.1:{free_port()}/upload?X-Amz-Signature=deadbeef"

    with pytest.raises(NeighbourAway, match="GET http://user:") as away:
        await call(session, "GET", url)

    assert "hunter2" not in str(away.value)
    assert "deadbeef" not in str(away.value)

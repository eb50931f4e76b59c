"""Clients that open connections and do not use them, over real ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from litestar import Request, get, post

from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.settings import HttpSettings, load
from farmiq.stack.ports import free_port
from support.waiting import eventually

HALF = b"GET /api/v1/client HTTP/1.1\r\nhost: x\r\nx-half: "


@get("/api/v1/client")
async def client(request: Request[Any, Any, Any]) -> str:
    return f"{request.client.host if request.client else None} {request.url.scheme}"


@post("/api/v1/body")
async def body(request: Request[Any, Any, Any]) -> int:
    return len(await request.body())


@asynccontextmanager
async def serving(**variables: str) -> AsyncIterator[int]:
    port = free_port()
    settings = load(HttpSettings, {"PORT": str(port), **variables})
    life = Lifetime("http-connections")
    task = asyncio.create_task(serve_http(life, settings, [client, body]))
    try:
        await eventually(lambda: answers(port), what="the port")
        yield port
    finally:
        life.stopping.set()
        await task


async def answers(port: int) -> bool:
    try:
        return (await ask(port)).startswith("127.0.0.1")
    except aiohttp.ClientError:
        return False


async def ask(port: int, **headers: str) -> str:
    async with aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{port}/api/v1/client"
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with session.get(address, headers=sent, timeout=aiohttp.ClientTimeout(total=5)) as answer:
            answer.raise_for_status()
            return await answer.text()


class Raw:
    """One connection, by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def read(self) -> bytes:
        """Until the end of what comes. Empty when the connection was closed."""
        try:
            return await self._reader.read(65536)
        except ConnectionError:
            return b""

    @property
    def is_closed(self) -> bool:
        return self._reader.at_eof() or self._reader.exception() is not None

    def end(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def raw(port: int) -> AsyncIterator[Raw]:
    connection = Raw(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield connection
    finally:
        connection.end()


async def test_eleven_hundred_half_sent_heads_are_closed_and_others_are_served() -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(HTTP_HEADER_SECONDS="2"))
        half = [await stack.enter_async_context(raw(port)) for _ in range(1100)]
        for connection in half:
            await connection.send(HALF)
        assert (await ask(port)).startswith("127.0.0.1")
        assert sum(connection.is_closed for connection in half) >= 700
        async with asyncio.timeout(30):
            assert {await connection.read() for connection in half} == {b""}


async def test_a_new_client_is_served_when_the_port_is_full_of_idle_ones() -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(HTTP_CONNECTIONS_MAX="3"))
        idle = [await stack.enter_async_context(raw(port)) for _ in range(3)]
        await idle[0].send(b"GET /api/v1/client HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in await idle[0].read()
        await idle[1].send(HALF)
        await ask(port)
        assert await idle[1].read() == b""
        assert not idle[0].is_closed


async def test_requests_under_way_are_not_ended_for_a_new_client() -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(HTTP_CONNECTIONS_PER_ADDRESS_MAX="2"))
        busy = [await stack.enter_async_context(raw(port)) for _ in range(2)]
        for connection in busy:
            await connection.send(b"POST /api/v1/body HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nab")
        with pytest.raises(aiohttp.ClientError):
            # Until the second request's head was read there is one that can make room.
            await eventually(lambda: answers_once(port), what="never true")
        for connection in busy:
            await connection.send(b"cd")
            assert b"201 Created" in await connection.read()


async def answers_once(port: int) -> bool:
    await ask(port)
    return False


async def test_a_body_that_does_not_come_ends_its_connection_and_one_that_comes_slowly_does_not() -> None:
    head = b"POST /api/v1/body HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n"
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(HTTP_BODY_SECONDS="2"))
        stuck, slow = [await stack.enter_async_context(raw(port)) for _ in range(2)]
        for connection in (stuck, slow):
            await connection.send(head + b"a")
        async with asyncio.timeout(20):
            closing = asyncio.create_task(stuck.read())
            for letter in (b"b", b"c", b"d"):
                await asyncio.wait({closing}, timeout=1.2)
                await slow.send(letter)
            assert b"201 Created" in await slow.read()
            assert await closing == b""


async def test_an_idle_connection_may_wait_for_its_next_request_longer_than_for_the_rest_of_a_head() -> None:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(HTTP_HEADER_SECONDS="1"))
        kept, half = [await stack.enter_async_context(raw(port)) for _ in range(2)]
        await kept.send(b"GET /api/v1/client HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in await kept.read()
        await half.send(HALF)
        assert await half.read() == b""
        await kept.send(b"GET /api/v1/client HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"200 OK" in await kept.read()


@pytest.mark.parametrize(
    ("proxies", "shown"),
    [("", "127.0.0.1 http"), ("192.0.2.7", "127.0.0.1 http"), ("192.0.2.7,127.0.0.1", "203.0.113.9 https")],
)
async def test_a_forwarded_address_is_believed_from_a_configured_proxy_only(proxies: str, shown: str) -> None:
    variables = {"HTTP_TRUSTED_PROXIES": proxies} if proxies else {}
    async with serving(**variables) as port:
        assert await ask(port, x_forwarded_for="198.51.100.1, 203.0.113.9", x_forwarded_proto="https") == shown

"""How answers leave an HTTP port. uvicorn writes the head of an answer and then its body, and each write wakes up the caller."""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

JOINED_BYTES_MAX: Final = 64 * 1024
"""A larger body is worth a write of its own, and not worth being copied."""


class WholeAnswers(HttpToolsProtocol):
    """An answer that is there leaves in one write."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(cast("asyncio.Transport", HeadKeeper(transport, self.loop)))


class HeadKeeper:
    """Keeps the head of an answer until the body comes, and no longer than this turn of the loop: a body may take its time."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head and len(data) <= JOINED_BYTES_MAX:
            data, self._head = self._head + data, b""
        elif not self._head and data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._let_go)
            return
        self._let_go()
        self._transport.write(data)

    def close(self) -> None:
        self._let_go()
        self._transport.close()

    def _let_go(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

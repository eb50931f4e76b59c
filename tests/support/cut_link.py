"""A cable that can be pulled: a TCP relay between a service and a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class Cable:
    def __init__(self, url: str) -> None:
        self._far = urlsplit(url)
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """The far server's URL, by way of the cable."""
        place = f"127.0.0.1:{self._port}"
        credentials, at, _ = self._far.netloc.rpartition("@")
        return urlunsplit(self._far._replace(netloc=f"{credentials}{at}{place}"))

    async def plug(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def pull(self) -> None:
        """Whatever was on the way is gone, and nobody answers any more."""
        assert self._server is not None
        self._server.close()
        for end in list(self._ends):
            end.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._far.hostname, self._far.port)
        self._ends |= {writer, far_writer}
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        self._ends -= {writer, far_writer}


@asynccontextmanager
async def plugged(url: str) -> AsyncIterator[Cable]:
    cable = Cable(url)
    await cable.plug()
    try:
        yield cable
    finally:
        await cable.pull()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        writer.transport.abort()
    else:
        writer.close()

"""A picture's bytes on their way through this process: counted, compared and slowed down, a chunk at a time."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Final

import aiohttp

from farmiq.edge.sync_forwarder.answers import Away, Refused
from farmiq.edge.sync_forwarder.pictures.bandwidth import Bandwidth
from farmiq.edge.sync_forwarder.pictures.store import Transfer
from farmiq.kit.clock import Clock
from farmiq.kit.errors import FarmiqError
from farmiq.outbox.verdicts import Failure

CHUNK_BYTES: Final = 64 * 1024


class SourceFailed(FarmiqError):
    """The edge's object store did not give the picture as it was stored. What was sent of it was not taken by the cloud."""

    code = "source_failed"


class Flow:
    """The last chunk is held back until size and checksum are right: a damaged picture never arrives whole.

    When it raises, `trouble` says what is wrong at the edge: for whoever pulls the bytes, it is a request that broke off.
    """

    def __init__(
        self, transfer: Transfer, bandwidth: Bandwidth, clock: Clock, deadline: asyncio.Timeout, stall_seconds: float
    ) -> None:
        self._transfer = transfer
        self._bandwidth = bandwidth
        self._clock = clock
        self._deadline = deadline
        self._stall_seconds = stall_seconds
        self._digest = hashlib.sha256()
        self._size = 0
        self.trouble: Away | Refused | None = None

    async def chunks(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        held = b""
        async for chunk in self._read(source):
            if held:
                yield await self._paced(held)
            held = chunk
            self._digest.update(chunk)
            self._size += len(chunk)
        self._compare()
        yield await self._paced(held)

    async def _read(self, source: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for chunk in source:
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.trouble = Away(Failure("EDGE_STORE_AWAY", str(error) or "the edge's object store stopped answering"))
            raise SourceFailed(self.trouble.failure.message) from error

    def _compare(self) -> None:
        if (self._size, self._digest.hexdigest()) == (self._transfer.size_bytes, self._transfer.sha256):
            return
        told = f"the edge's store has {self._size} bytes with SHA-256 {self._digest.hexdigest()}"
        self.trouble = Refused(Failure("EDGE_CHECKSUM_MISMATCH", f"{told}, which is not what was uploaded"))
        raise SourceFailed(told)

    async def _paced(self, chunk: bytes) -> bytes:
        """Waiting for the uplink's share is no stall, so the deadline begins anew after it."""
        wait_seconds = self._bandwidth.wait_seconds(len(chunk), self._clock.monotonic())
        now = asyncio.get_running_loop().time()
        self._deadline.reschedule(now + wait_seconds + self._stall_seconds)
        await asyncio.sleep(wait_seconds)
        return chunk

"""The bytes of one picture, from the edge's object store to the URL that the cloud gave for them."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

import aiohttp

from farmiq.contracts.media import CloudPresignAnswer
from farmiq.edge.sync_forwarder.answers import Away, Refused, retry_after_seconds
from farmiq.edge.sync_forwarder.pictures.bandwidth import Bandwidth
from farmiq.edge.sync_forwarder.pictures.flow import CHUNK_BYTES, Flow, SourceFailed
from farmiq.edge.sync_forwarder.pictures.store import Transfer
from farmiq.edge.sync_forwarder.pictures.verdicts import Gone
from farmiq.kit.clock import Clock
from farmiq.kit.picture_notes import without_notes
from farmiq.kit.pictures import PictureRefused
from farmiq.kit.s3 import ObjectStore
from farmiq.outbox.verdicts import Failure

SOURCE_URL_SECONDS: Final = 300
ERROR_BYTES_MAX: Final = 4096
_UNBOUNDED = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=None)
_STORE_CODE = re.compile(rb"<Code>([A-Za-z]{1,60})</Code>")

Trouble = Away | Refused | Gone


class Uploader:
    """`stall_seconds` without a byte moving end an upload; a slow one may take as long as it takes."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        store: ObjectStore,
        bandwidth: Bandwidth,
        clock: Clock,
        stall_seconds: float,
    ) -> None:
        self._session = session
        self._store = store
        self._bandwidth = bandwidth
        self._clock = clock
        self._stall_seconds = stall_seconds

    async def upload(self, transfer: Transfer, answer: CloudPresignAnswer) -> Trouble | None:
        """None when the cloud's store has taken it, or has it already."""
        url = self._store.presign_get(transfer.bucket, transfer.object_key, expires_seconds=SOURCE_URL_SECONDS)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=self._stall_seconds)
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as source:
                trouble = read_source(source.status, source.content_length, transfer)
                return trouble or await self._put(transfer, answer, await _picture(transfer, source))
        except PictureRefused as error:
            return Refused(Failure("EDGE_CHECKSUM_MISMATCH", f"what is stored is no picture any more: {error}"))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return Away(Failure("EDGE_STORE_AWAY", str(error) or "no answer in time"))

    async def _put(
        self, transfer: Transfer, answer: CloudPresignAnswer, source: AsyncIterator[bytes]
    ) -> Trouble | None:
        headers = {name.lower(): value for name, value in (answer.required_headers or {}).items()}
        # With its length given the body is sent plain: an object store takes no chunked one.
        headers.setdefault("content-length", str(transfer.size_bytes))
        flow: Flow | None = None
        try:
            async with asyncio.timeout(self._stall_seconds) as deadline:
                flow = Flow(transfer, self._bandwidth, self._clock, deadline, self._stall_seconds)
                async with self._session.put(
                    answer.upload_url or "",
                    data=flow.chunks(source),
                    headers=headers,
                    timeout=_UNBOUNDED,
                    allow_redirects=False,
                ) as response:
                    body = await response.content.read(ERROR_BYTES_MAX)
                    said = read_stored(response.status, response.headers.get("retry-after"), body, self._clock.now())
        except (aiohttp.ClientError, TimeoutError, OSError, SourceFailed) as error:
            said = Away(Failure("CLOUD_STORE_AWAY", str(error) or "the cloud's object store stopped taking bytes"))
        # A store may answer early to a body that breaks off: what is wrong at the edge explains it better.
        return (flow.trouble if flow else None) or said


async def _picture(transfer: Transfer, source: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """As it lies there, or, when its camera wrote something beside it, without that: then all of it is held in memory."""
    if transfer.stored_size_bytes is None:
        return source.content.iter_chunked(CHUNK_BYTES)
    return _pieces(await asyncio.to_thread(without_notes, await source.read()))


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), CHUNK_BYTES):
        yield data[at : at + CHUNK_BYTES]


def read_source(status: int, size_bytes: int | None, transfer: Transfer) -> Trouble | None:
    """What the edge's own store says about the picture."""
    if status == 404:
        return Gone(Failure("EDGE_OBJECT_MISSING", f"the edge's store has no {transfer.bucket}/{transfer.object_key}"))
    if status != 200:
        return Away(Failure("EDGE_STORE_AWAY", f"HTTP {status}"), needs_person=status in (401, 403))
    if size_bytes != transfer.source_size_bytes:
        told = f"the edge's store has {size_bytes} bytes where {transfer.source_size_bytes} were uploaded"
        return Refused(Failure("EDGE_CHECKSUM_MISMATCH", told))
    return None


def read_stored(status: int, retry_after: str | None, body: bytes, now: datetime) -> Away | Refused | None:
    """What the cloud's object store says. 412: the object is there already, and `complete` finds out whether it is this one."""
    if status in (200, 201, 204, 412):
        return None
    named = _STORE_CODE.search(body)
    failure = Failure(f"STORE_{status}", named.group(1).decode() if named else f"HTTP {status}")
    if status == 413 or (named and status in (400, 411, 414, 422)):
        return Refused(failure)
    # A signature that is not taken is about keys or clocks of the cloud, a 5xx about its store, and what no store has said about
    # whatever stands in between: never about one picture.
    return Away(
        failure, retry_after_seconds(retry_after, now), needs_person=status < 500 and status not in (408, 409, 429)
    )

"""The cloud's entrance, as seen from the edge."""

import asyncio
from typing import Final

import aiohttp

from farmiq.edge.sync_forwarder.answers import Answer, Away, read_answer
from farmiq.edge.sync_forwarder.compression import Compression, compressed, headers_of
from farmiq.kit import http_client
from farmiq.kit.clock import Clock
from farmiq.kit.http_client import AnswerTooLarge, NeighbourAway, call
from farmiq.kit.logging import get_logger
from farmiq.outbox.verdicts import Failure

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
UNSUPPORTED_ENCODING: Final = 415

log = get_logger(__name__)


class Cloud:
    def __init__(
        self, session: aiohttp.ClientSession, url: str, token: str, clock: Clock, compression: Compression
    ) -> None:
        self._session = session
        self._url = url
        self._clock = clock
        self._compression = compression
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    async def post(self, body: bytes) -> Answer:
        """Send one batch. Every way in which the network can fail is an answer too: `Away`."""
        try:
            answer = await self._send(body, self._compression)
            if answer.status == UNSUPPORTED_ENCODING and self._compression == "zstd":
                # A cloud older than this edge. It stays that way until one of the two is started anew.
                log.warning("compression_refused", compression="zstd", used_instead="gzip")
                self._compression = "gzip"
                answer = await self._send(body, self._compression)
        except (NeighbourAway, AnswerTooLarge) as error:
            return unanswered(error)
        return read_answer(answer.status, answer.headers.get("retry-after"), answer.body, self._clock.now())

    async def _send(self, body: bytes, compression: Compression) -> http_client.Answer:
        return await call(
            self._session,
            "POST",
            self._url,
            # A batch takes milliseconds to compress: too long for a loop that also answers health checks.
            body=await asyncio.to_thread(compressed, body, compression),
            headers=self._headers | headers_of(compression),
            answer_bytes_max=ANSWER_BYTES_MAX,
        )


def unanswered(error: NeighbourAway | AnswerTooLarge) -> Away:
    """Nobody there, nobody in time, or somebody who talks too much to be the cloud."""
    if isinstance(error, AnswerTooLarge):
        return Away(Failure("NOT_THE_CLOUD", str(error)), needs_person=True)
    is_timeout = isinstance(error.__cause__, TimeoutError)
    return Away(Failure("TIMEOUT" if is_timeout else "NETWORK_ERROR", str(error)))

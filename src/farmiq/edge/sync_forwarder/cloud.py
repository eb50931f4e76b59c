"""The cloud's entrance, as seen from the edge."""

import asyncio
import gzip
from typing import Final

import aiohttp

from farmiq.edge.sync_forwarder.answers import Answer, Away, read_answer
from farmiq.kit.clock import Clock
from farmiq.kit.http_client import AnswerTooLarge, NeighbourAway, call
from farmiq.outbox.verdicts import Failure

ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024


class Cloud:
    def __init__(self, session: aiohttp.ClientSession, url: str, token: str, clock: Clock) -> None:
        self._session = session
        self._url = url
        self._clock = clock
        self._headers = {
            "authorization": f"Bearer {token}",
            "content-type": "application/json",
            "content-encoding": "gzip",
        }

    async def post(self, body: bytes) -> Answer:
        """Send one batch. Every way in which the network can fail is an answer too: `Away`."""
        # A batch takes tens of milliseconds to compress: too long for a loop that also answers health checks.
        compressed = await asyncio.to_thread(gzip.compress, body, 6)
        try:
            answer = await call(
                self._session,
                "POST",
                self._url,
                body=compressed,
                headers=self._headers,
                answer_bytes_max=ANSWER_BYTES_MAX,
            )
        except NeighbourAway as error:
            is_timeout = isinstance(error.__cause__, TimeoutError)
            return Away(Failure("TIMEOUT" if is_timeout else "NETWORK_ERROR", str(error)))
        except AnswerTooLarge as error:
            return Away(Failure("NOT_THE_CLOUD", str(error)), needs_person=True)
        return read_answer(answer.status, answer.headers.get("retry-after"), answer.body, self._clock.now())

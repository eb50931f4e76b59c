"""`cloud-media-store`, as seen from the edge."""

from datetime import datetime
from typing import Final, cast
from urllib.parse import quote

import aiohttp

from farmiq.contracts.decoding import MalformedMessage, encode, parse
from farmiq.contracts.media import (
    CloudMediaState,
    CloudPresignAnswer,
    CloudPresignRequest,
    ContentType,
    WantedPictures,
)
from farmiq.edge.sync_forwarder.answers import Away, Refused, not_judged, own_words
from farmiq.edge.sync_forwarder.cloud import unanswered
from farmiq.edge.sync_forwarder.pictures.store import Transfer
from farmiq.kit.clock import Clock
from farmiq.kit.http_client import Answer, AnswerTooLarge, NeighbourAway, call
from farmiq.outbox.verdicts import Failure

ANSWER_BYTES_MAX: Final = 1024 * 1024


class CloudMedia:
    def __init__(self, session: aiohttp.ClientSession, url: str, token: str, clock: Clock) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._clock = clock
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    async def presign(self, transfer: Transfer) -> CloudPresignAnswer | Away | Refused:
        answer = await self._post("/api/v1/media/presign", encode(request_of(transfer)))
        return answer if isinstance(answer, Away) else read_presign(answer, self._clock.now())

    async def complete(self, transfer: Transfer) -> Away | Refused | None:
        """None when the cloud has it."""
        answer = await self._post(f"/api/v1/media/{transfer.media_id}/complete?tenant_id={transfer.tenant_id}", b"{}")
        return answer if isinstance(answer, Away) else read_complete(answer, self._clock.now())

    async def wanted(self, after: str | None) -> WantedPictures | Away | Refused:
        """A page of what the cloud misses."""
        query = f"?after={quote(after)}" if after else ""
        answer = await self._ask("GET", f"/api/v1/media/wanted{query}", None)
        return answer if isinstance(answer, Away) else read_wanted(answer, self._clock.now())

    async def _post(self, path: str, body: bytes) -> Answer | Away:
        return await self._ask("POST", path, body)

    async def _ask(self, method: str, path: str, body: bytes | None) -> Answer | Away:
        try:
            return await call(
                self._session,
                method,
                self._url + path,
                body=body,
                headers=self._headers,
                answer_bytes_max=ANSWER_BYTES_MAX,
            )
        except (NeighbourAway, AnswerTooLarge) as error:
            return unanswered(error)


def request_of(transfer: Transfer) -> CloudPresignRequest:
    return CloudPresignRequest(
        tenant_id=transfer.tenant_id,
        media_id=transfer.media_id,
        farm_id=transfer.farm_id,
        barn_id=transfer.barn_id,
        device_id=transfer.device_id,
        # The cloud judges it: a type that it does not take is its answer about this picture.
        mime_type=cast("ContentType", transfer.mime_type),
        size_bytes=transfer.size_bytes,
        sha256=transfer.sha256,
        captured_at=transfer.captured_at,
        session_id=transfer.session_id,
    )


def read_presign(answer: Answer, now: datetime) -> CloudPresignAnswer | Away | Refused:
    if answer.status != 200:
        return not_judged(answer.status, answer.headers.get("retry-after"), answer.body, now)
    try:
        return parse(CloudPresignAnswer, answer.body)
    except MalformedMessage as error:
        return _not_the_cloud(error)


def read_complete(answer: Answer, now: datetime) -> Away | Refused | None:
    if answer.status == 404 and own_words(answer.body):
        # Presign was answered a moment ago, so the URL is right: the cloud does not know this picture any more.
        return Refused(Failure("HTTP_404", "the cloud does not know the picture that it has just asked for"))
    if answer.status != 200:
        return not_judged(answer.status, answer.headers.get("retry-after"), answer.body, now)
    try:
        parse(CloudMediaState, answer.body)
    except MalformedMessage as error:
        return _not_the_cloud(error)
    return None


def read_wanted(answer: Answer, now: datetime) -> WantedPictures | Away | Refused:
    if answer.status != 200:
        return not_judged(answer.status, answer.headers.get("retry-after"), answer.body, now)
    try:
        return parse(WantedPictures, answer.body)
    except MalformedMessage as error:
        return _not_the_cloud(error)


def _not_the_cloud(error: MalformedMessage) -> Away:
    """A captive portal answers 200 with its login page. Nothing but the cloud's own words may mark a picture as sent."""
    return Away(Failure("NOT_THE_CLOUD", error.detail), needs_person=True)

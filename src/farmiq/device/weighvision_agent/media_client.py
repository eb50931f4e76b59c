"""The HTTP calls of a station: ask the edge for a URL, put a picture there, ask what became of it. They block, on a thread of
their own.

Answers are judged here, in the three kinds that matter: it is there, the edge can't take it (try again later), or something is
wrong with this picture itself. Only the last is a verdict on the picture: a key that was changed at the edge, a bucket that is
gone or two clocks that disagree must not cost a single one of them.
"""

import http.client
import ssl
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from farmiq.contracts.decoding import MalformedMessage, decode, encode
from farmiq.contracts.media import PictureStates, PictureStatesRequest, PresignAnswer, PresignRequest
from farmiq.kit.errors import Rejected, Transient
from farmiq.kit.ids import new_id

ANSWER_BYTES_MAX: Final = 64 * 1024
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
# Busy, or something between us and the edge is: the same request is good later.
_AWAY: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
# What can only be said of a picture. Anything else may have nothing to do with it.
_ABOUT_THE_PICTURE: Final = frozenset({413, 415, 422})
# What an object store says of the bytes, with 400: other ones came than were signed.
_ABOUT_THE_BYTES: Final = (
    b"<Code>BadDigest<",
    b"<Code>InvalidDigest<",
    b"<Code>XAmzContentChecksumMismatch<",
    b"<Code>XAmzContentSHA256Mismatch<",
    b"<Code>EntityTooLarge<",
    b"<Code>EntityTooSmall<",
)


class EdgeAway(Transient):
    """The edge, or its object store, cannot be reached or asks us to wait."""

    code = "edge_away"

    def __init__(
        self,
        message: str,
        retry_after_seconds: float | None = None,
        *,
        is_sent: bool = False,
        is_answered: bool = False,
        is_suspect: bool = False,
    ) -> None:
        """`is_sent`: the bytes may have arrived all the same. `is_answered`: somebody is there. `is_suspect`: it may be this
        picture's own doing, and is, when others go through meanwhile."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.is_sent = is_sent
        self.is_answered = is_answered
        self.is_suspect = is_suspect


class NotLetIn(EdgeAway):
    """The edge refuses this station itself: HTTP_TOKEN or EDGE_MEDIA_STORE_URL is wrong, or the station was revoked."""

    code = "not_let_in"


class RequestRefused(EdgeAway):
    """The edge does not understand what it is asked. Whether for this picture or for any, the others will show."""

    code = "request_refused"

    def __init__(self, message: str) -> None:
        super().__init__(message, is_answered=True, is_suspect=True)


class UrlRefused(EdgeAway):
    """The object store takes nothing at this URL: it has expired, or the edge's key, bucket or clock is wrong."""

    code = "url_refused"

    def __init__(self, message: str) -> None:
        super().__init__(message, is_answered=True, is_suspect=True)


class PictureRefused(Rejected):
    """The edge does not want this picture as it is."""

    code = "picture_refused"


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_seconds: float | None

    @property
    def text(self) -> str:
        """Whoever answered may be anybody, and a status holds no NUL."""
        body = self.body[:300].decode(errors="replace").replace("\x00", "\ufffd")
        return f"HTTP {self.status}: {body}"


class MediaClient:
    def __init__(self, base_url: str, token: str, timeout_seconds: float) -> None:
        self._base_url = base_url.rstrip("/")
        self._token = token
        self._timeout_seconds = timeout_seconds

    def presign(self, request: PresignRequest) -> PresignAnswer:
        url = f"{self._base_url}/api/v1/media/images/presign"
        headers = {"Content-Type": "application/json", **self._credentials(request.trace_id)}
        answer = self._call("POST", url, encode(request), headers)
        if answer.status in _ABOUT_THE_PICTURE:
            raise PictureRefused(answer.text)
        if answer.status in (400, 409):
            raise RequestRefused(answer.text)
        if answer.status != 200:
            raise NotLetIn(answer.text)
        try:
            return decode(PresignAnswer, answer.body, max_bytes=ANSWER_BYTES_MAX)
        except MalformedMessage as error:
            raise NotLetIn(f"EDGE_MEDIA_STORE_URL answers something else than a media store: {error}") from error

    def put(self, url: str, headers: Mapping[str, str], data: bytes, trace_id: str) -> None:
        """Returns when the object store has the bytes: now, or from an earlier time."""
        answer = self._call("PUT", url, data, {**headers, **_names(trace_id)})
        if answer.status in (200, 201, 204, 412):
            return
        if answer.status in _ABOUT_THE_PICTURE or any(code in answer.body for code in _ABOUT_THE_BYTES):
            raise PictureRefused(answer.text)
        raise UrlRefused(answer.text)

    def is_there(self, media_id: UUID, trace_id: str) -> bool:
        """Did a picture arrive of which we only know that it was sent? For a URL that can't be tried again.

        A question, and not the word that it is there: the edge must not go on waiting for one that is sent again under
        another id. Until the edge has looked, it is away as far as this picture is concerned."""
        url = f"{self._base_url}/api/v1/media/images/{media_id}/complete?awaited=false"
        answer = self._call("POST", url, b"", self._credentials(trace_id))
        if answer.status in (401, 403):
            raise NotLetIn(answer.text)
        if answer.status == 202:
            raise EdgeAway("the edge has not looked for the picture yet", is_sent=True, is_answered=True)
        return answer.status == 200

    def states(self, media_ids: Sequence[UUID]) -> dict[UUID, str] | None:
        """What the edge has of pictures that were announced to it. None: it is of a release that cannot say."""
        url = f"{self._base_url}/api/v1/media/images/states"
        headers = {"Content-Type": "application/json", **self._credentials(None)}
        answer = self._call("POST", url, encode(PictureStatesRequest(media_ids=list(media_ids))), headers)
        if answer.status in (404, 405) and b'"traceId"' in answer.body:
            return None
        if answer.status != 200:
            raise NotLetIn(answer.text)
        try:
            told = decode(PictureStates, answer.body, max_bytes=ANSWER_BYTES_MAX)
        except MalformedMessage as error:
            raise NotLetIn(f"EDGE_MEDIA_STORE_URL answers something else than a media store: {error}") from error
        return {one.media_id: one.state for one in told.pictures}

    def _credentials(self, trace_id: str | None) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", **_names(trace_id)}

    def _call(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        connection, host, target = _connection(url, self._timeout_seconds)
        is_sent = False
        try:
            connection.connect()
            is_sent = True
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            answer = Answer(response.status, response.read(ANSWER_BYTES_MAX), _retry_after(response))
        except (OSError, http.client.HTTPException) as error:
            raise EdgeAway(f"{host}: {error or type(error).__name__}", is_sent=is_sent) from error
        finally:
            connection.close()
        if answer.status in _AWAY:
            raise EdgeAway(
                answer.text,
                answer.retry_after_seconds,
                is_sent=True,
                is_answered=True,
                # All the others ask us to wait, whatever we send.
                is_suspect=answer.status == 500,
            )
        return answer


def _names(trace_id: str | None) -> dict[str, str]:
    return {"x-request-id": str(new_id()), **({} if trace_id is None else {"x-trace-id": trace_id})}


def _connection(url: str, timeout_seconds: float) -> tuple[http.client.HTTPConnection, str, str]:
    """Not connected yet; with the host, and the target of the request."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UrlRefused("the upload URL cannot be read") from error
    if host is None or parts.scheme not in ("http", "https"):
        raise UrlRefused("the upload URL is not one of http or https")
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    if parts.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=context), host, target
    return http.client.HTTPConnection(host, port, timeout=timeout_seconds), host, target


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    given = response.headers.get("Retry-After", "")
    return min(float(given), RETRY_AFTER_SECONDS_MAX) if given.isascii() and given.isdigit() else None

"""The two HTTP calls of a station: ask the edge for a URL, and put a picture there. They block, on a thread of their own.

Answers are judged here, in the three kinds that matter: it is there, the edge is away (try the same again later), or something is
wrong with this picture or its URL.
"""

import http.client
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from uuid import UUID

from farmiq.contracts.decoding import MalformedMessage, decode, encode
from farmiq.contracts.media import PresignAnswer, PresignRequest
from farmiq.kit.errors import Rejected, Transient
from farmiq.kit.ids import new_id

ANSWER_BYTES_MAX: Final = 64 * 1024
RETRY_AFTER_SECONDS_MAX: Final = 3600.0
# Busy, or something between us and the edge is: the same request is good later.
_AWAY: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 507})
# What an edge says of a picture. Anything else says that it does not believe our credential, or is not the edge: no picture
# can do anything about that.
_ABOUT_THE_PICTURE: Final = frozenset({400, 409, 413, 415, 422})


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
    ) -> None:
        """`is_sent`: the bytes may have arrived all the same, only the answer is missing. `is_answered`: somebody is there."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.is_sent = is_sent or is_answered
        self.is_answered = is_answered


class NotLetIn(EdgeAway):
    """The edge refuses this station itself: HTTP_TOKEN or EDGE_MEDIA_STORE_URL is wrong, or the station was revoked."""

    code = "not_let_in"


class PictureRefused(Rejected):
    """The edge does not want this picture as it is."""

    code = "picture_refused"


class UrlRefused(Rejected):
    """The object store does not take this URL any more: there is another one to be had."""

    code = "url_refused"


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_seconds: float | None

    @property
    def text(self) -> str:
        return f"HTTP {self.status}: {self.body[:300].decode(errors='replace')}"


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
        if answer.status in (403, 404):
            raise UrlRefused(answer.text)
        raise PictureRefused(answer.text)

    def is_there(self, media_id: UUID, trace_id: str) -> bool:
        """Did a picture arrive of which we only know that it was sent? For a URL that can't be tried again.

        A question, and not the word that it is there: the edge must not go on waiting for one that is sent again under
        another id. Until the edge has looked, it is away as far as this picture is concerned."""
        url = f"{self._base_url}/api/v1/media/images/{media_id}/complete?awaited=false"
        answer = self._call("POST", url, b"", self._credentials(trace_id))
        if answer.status in (401, 403):
            raise NotLetIn(answer.text)
        if answer.status == 202:
            raise EdgeAway("the edge has not looked for the picture yet", is_answered=True)
        return answer.status == 200

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
            raise EdgeAway(answer.text, answer.retry_after_seconds, is_answered=True)
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

"""Calling a neighbour over HTTP: bounded in time and size, with the ids of the work under way, and one error for "away"."""

from collections.abc import Mapping

import aiohttp
import msgspec
from structlog.contextvars import get_contextvars

from farmiq import __version__
from farmiq.kit.errors import Transient
from farmiq.kit.ids import new_trace_id
from farmiq.kit.logging import mask

# Shorter than servers and load balancers keep idle connections: otherwise every pause ends with a request that is sent on a
# connection being closed, and looks like a neighbour that is away.
KEEPALIVE_SECONDS = 15.0


class NeighbourAway(Transient):
    """The service on the other side can't be reached or did not answer in time. It may or may not have done the work."""

    code = "neighbour_away"


class AnswerTooLarge(Transient):
    """The answer is larger than we are willing to read. It was dropped."""

    code = "answer_too_large"


class Answer(msgspec.Struct, frozen=True):
    """Header names are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes


def open_session(
    service: str, *, total_seconds: float = 30.0, connect_seconds: float = 5.0, connections_max: int = 20
) -> aiohttp.ClientSession:
    """A session for one service, closed by whoever opened it. Its connections are kept and used again."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections_max, keepalive_timeout=KEEPALIVE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=total_seconds, sock_connect=connect_seconds),
        headers={"user-agent": f"farmiq-{service}/{__version__}"},
        cookie_jar=aiohttp.DummyCookieJar(),
    )


async def call(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    answer_bytes_max: int = 1 << 20,
) -> Answer:
    """Send a request and read the whole answer, whatever its status. No redirect is followed: it would take the token along."""
    try:
        async with session.request(
            method, url, data=body, headers={**trace_headers(), **(headers or {})}, allow_redirects=False
        ) as response:
            answer = await _read(response, answer_bytes_max)
            return Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, answer)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise NeighbourAway(f"{method} {mask(url)}: {str(error) or 'no answer in time'}") from error


def trace_headers() -> dict[str, str]:
    """The ids of the request or message being handled, or new ones."""
    known = get_contextvars()
    return {
        "x-trace-id": str(known.get("trace_id") or new_trace_id()),
        "x-request-id": str(known.get("request_id") or new_trace_id()),
    }


async def _read(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > bytes_max:
            raise AnswerTooLarge(f"{response.method} {response.url.origin()}: more than {bytes_max} bytes")
    return bytes(body)

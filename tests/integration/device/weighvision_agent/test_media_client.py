"""What the answers of an edge mean to a station. The server is real; what it answers is set by the test."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from farmiq.contracts.media import PresignRequest
from farmiq.device.weighvision_agent.media_client import (
    ANSWER_BYTES_MAX,
    EdgeAway,
    MediaClient,
    NotLetIn,
    PictureRefused,
    UrlRefused,
)
from farmiq.stack.ports import free_port

MEDIA = UUID(int=9)
REQUEST = PresignRequest(
    tenant_id="demo",
    farm_id="farm-1",
    barn_id="barn-1",
    device_id="scale-1",
    captured_at=datetime(2026, 5, 4, tzinfo=UTC),
    content_type="image/jpeg",
    trace_id="trace-1",
)
SIGNED = {"upload_url": "http://store/1?sig=x", "media_id": str(MEDIA), "expires_at": "2026-05-04T00:05:00Z"}


class Scripted:
    """One answer for whatever is asked; the questions are kept."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, b"", {}  # type: int, bytes, dict[str, str]
        self.is_cut = False
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                script.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                if script.is_cut:
                    self.connection.close()
                    return
                self.send_response(script.status)
                for name, value in script.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(script.body)

            do_POST = do_PUT = answer  # noqa: N815 - the library's own names

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def says(self, status: int, body: Any = b"", **headers: str) -> None:
        self.status, self.headers = status, headers
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


@pytest.fixture
def edge() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.server.shutdown()
    scripted.server.server_close()


def client(edge: Scripted) -> MediaClient:
    return MediaClient(edge.url + "/", "a token", 5.0)


def test_a_presign_says_who_asks_and_what_for_and_is_told_apart_from_every_other(edge: Scripted) -> None:
    edge.says(200, SIGNED)
    for _ in range(2):
        assert client(edge).presign(REQUEST).media_id == MEDIA
    (method, path, headers, body), (_, _, again, _) = edge.asked
    assert (method, path) == ("POST", "/api/v1/media/images/presign")
    assert headers["authorization"] == "Bearer a token"
    assert headers["x-trace-id"] == json.loads(body)["traceId"] == "trace-1"
    assert UUID(headers["x-request-id"]) != UUID(again["x-request-id"])


def test_the_object_store_gets_the_signed_headers_and_never_the_token(edge: Scripted) -> None:
    client(edge).put(f"{edge.url}/bucket/key?X-Sig=a%2Fb", {"content-type": "image/jpeg"}, b"bytes", "trace-1")
    ((method, path, headers, body),) = edge.asked
    assert (method, path, body) == ("PUT", "/bucket/key?X-Sig=a%2Fb", b"bytes")
    assert (headers["content-type"], headers["content-length"]) == ("image/jpeg", "5")
    assert "authorization" not in headers


def test_what_is_there_already_is_there(edge: Scripted) -> None:
    edge.says(412)
    client(edge).put(f"{edge.url}/key", {}, b"bytes", "trace-1")
    assert len(edge.asked) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_busy_is_away_and_says_for_how_long(edge: Scripted, status: int) -> None:
    edge.says(status, **{"Retry-After": "7"})
    for call in (lambda: client(edge).presign(REQUEST), lambda: client(edge).put(f"{edge.url}/key", {}, b"", "t")):
        with pytest.raises(EdgeAway) as away:
            call()
        assert (away.value.retry_after_seconds, away.value.is_answered) == (7.0, True)


@pytest.mark.parametrize("given", ["", "soon", "-5", "99999999999999999999"])
def test_a_retry_after_that_makes_no_sense_keeps_nobody_waiting_for_ever(edge: Scripted, given: str) -> None:
    edge.says(503, **{"Retry-After": given})
    with pytest.raises(EdgeAway) as away:
        client(edge).presign(REQUEST)
    assert away.value.retry_after_seconds in (None, 3600.0)


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, b""), (403, b""), (404, b""), (200, b"<html>"), (200, b"{}"), (200, b" " * ANSWER_BYTES_MAX)],
)
def test_an_edge_that_does_not_know_us_is_not_the_pictures_fault(edge: Scripted, status: int, body: bytes) -> None:
    edge.says(status, body)
    with pytest.raises(NotLetIn):
        client(edge).presign(REQUEST)


def test_a_picture_that_is_not_wanted_and_a_url_that_is_worn_out_are_told_apart(edge: Scripted) -> None:
    edge.says(413)
    with pytest.raises(PictureRefused, match="413"):
        client(edge).presign(REQUEST)
    edge.says(400, b"BadDigest")
    with pytest.raises(PictureRefused, match="BadDigest"):
        client(edge).put(f"{edge.url}/key", {}, b"", "t")
    edge.says(403, b"Request has expired")
    with pytest.raises(UrlRefused, match="expired"):
        client(edge).put(f"{edge.url}/key", {}, b"", "t")


def test_whether_bytes_may_have_arrived_is_known(edge: Scripted) -> None:
    with pytest.raises(EdgeAway) as away:
        client(edge).put(f"http://127.0.0.1:{free_port()}/key", {}, b"bytes", "t")
    assert not away.value.is_sent
    edge.is_cut = True
    with pytest.raises(EdgeAway) as away:
        client(edge).put(f"{edge.url}/key", {}, b"bytes", "t")
    assert away.value.is_sent


@pytest.mark.parametrize(("status", "is_there"), [(200, True), (404, False), (409, False), (422, False)])
def test_whether_a_picture_arrived_can_be_asked(edge: Scripted, status: int, is_there: bool) -> None:
    edge.says(status)
    assert client(edge).is_there(MEDIA, "trace-1") is is_there
    assert edge.asked[0][1] == f"/api/v1/media/images/{MEDIA}/complete?awaited=false"


def test_a_picture_that_the_edge_has_not_looked_for_yet_is_asked_for_again(edge: Scripted) -> None:
    edge.says(202)
    with pytest.raises(EdgeAway) as away:
        client(edge).is_there(MEDIA, "trace-1")
    assert away.value.is_answered


@pytest.mark.parametrize("url", ["ftp://store/key", "http:///key", "http://[::1", "http://store:port/key", "key"])
def test_an_upload_url_that_is_none_is_asked_for_again(edge: Scripted, url: str) -> None:
    with pytest.raises(UrlRefused):
        client(edge).put(url, {}, b"", "t")

"""What the answers of an edge mean to a station. The server is real; what it answers is set by the test."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.contracts.decoding import encode
from farmiq.contracts.media import PresignRequest
from farmiq.contracts.status import DeviceStatus
from farmiq.device.weighvision_agent.media_client import (
    ANSWER_BYTES_MAX,
    EdgeAway,
    MediaClient,
    NotLetIn,
    PictureRefused,
    UrlRefused,
)
from farmiq.stack.ports import free_port
from integration.device.weighvision_agent.scripted_edge import Scripted

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


@pytest.fixture
def edge() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


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


BAD_DIGEST = b"<?xml version='1.0'?><Error><Code>BadDigest</Code></Error>"


@pytest.mark.parametrize(("status", "body"), [(413, b""), (415, b""), (422, b""), (400, BAD_DIGEST)])
def test_a_verdict_on_the_picture_is_one(edge: Scripted, status: int, body: bytes) -> None:
    edge.says(status, body)
    with pytest.raises(PictureRefused, match=str(status)):
        client(edge).put(f"{edge.url}/key", {}, b"", "t")
    if status != 400:
        with pytest.raises(PictureRefused, match=str(status)):
            client(edge).presign(REQUEST)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, b"Request has expired"),
        (403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>"),
        (404, b"<Error><Code>NoSuchBucket</Code></Error>"),
        (400, b"<Error><Code>ExpiredToken</Code></Error>"),
        (301, b""),
        (401, b""),
    ],
)
def test_a_url_that_the_store_does_not_take_says_nothing_about_the_picture(
    edge: Scripted, status: int, body: bytes
) -> None:
    edge.says(status, body)
    with pytest.raises(UrlRefused, match=str(status)) as refused:
        client(edge).put(f"{edge.url}/key", {}, b"", "t")
    assert (refused.value.is_sent, refused.value.is_suspect) == (False, True)


def test_an_answer_of_any_bytes_can_be_told_in_the_status(edge: Scripted) -> None:
    edge.says(403, b"\x00\xff\xfe<html>")
    with pytest.raises(UrlRefused) as refused:
        client(edge).put(f"{edge.url}/key", {}, b"", "t")
    assert encode(DeviceStatus(state="online", upload_trouble=str(refused.value)))


def test_a_request_that_the_edge_does_not_understand_says_nothing_about_the_picture(edge: Scripted) -> None:
    edge.says(400)
    with pytest.raises(EdgeAway) as refused:
        client(edge).presign(REQUEST)
    assert refused.value.is_suspect


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504, 507])
def test_no_picture_is_suspected_when_the_edge_asks_us_to_wait(edge: Scripted, status: int) -> None:
    edge.says(status)
    with pytest.raises(EdgeAway) as away:
        client(edge).put(f"{edge.url}/key", {}, b"", "t")
    assert not away.value.is_suspect


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

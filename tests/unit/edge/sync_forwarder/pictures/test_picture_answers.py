"""What cloud-media-store and the object stores say, and what it costs a picture."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.contracts.media import CloudPresignAnswer
from farmiq.edge.sync_forwarder.answers import Away, Refused
from farmiq.edge.sync_forwarder.pictures.cloud import read_complete, read_presign
from farmiq.edge.sync_forwarder.pictures.store import Transfer
from farmiq.edge.sync_forwarder.pictures.upload import read_source, read_stored
from farmiq.edge.sync_forwarder.pictures.verdicts import Gone, Outcome, Sent, outcome_of
from farmiq.kit.http_client import Answer
from farmiq.outbox.verdicts import Failure, RetryPolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHY = Failure("CODE", "why")
PICTURE = Transfer(
    media_id=UUID(int=1),
    claim_token=1,
    attempt_count=0,
    tenant_id="demo",
    object_key="k",
    farm_id="f",
    barn_id="b",
    device_id="d",
    session_id=None,
    bucket="bucket",
    mime_type="image/jpeg",
    size_bytes=10,
    sha256="0" * 64,
    captured_at=NOW,
    trace_id=None,
)


def said(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


OWN = b'{"error": {"code": "bad_picture", "message": "boom"}}'


@pytest.mark.parametrize("body", [b"", b"boom", OWN])
@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504, 401, 403, 405, 407, 415, 301, 204])
def test_what_does_not_speak_about_the_picture_costs_nothing(status: int, body: bytes) -> None:
    assert isinstance(read_presign(said(status, body), NOW), Away)
    assert isinstance(read_complete(said(status, body), NOW), Away)


@pytest.mark.parametrize("status", [400, 402, 404, 409, 422, 451])
def test_an_error_in_anybody_elses_words_costs_a_picture_nothing(status: int) -> None:
    assert isinstance(read_presign(said(status, b"<html>"), NOW), Away)
    assert isinstance(read_complete(said(status, b"<html>"), NOW), Away)
    assert isinstance(read_stored(status, None, b"<html>", NOW), Away)


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_what_speaks_about_the_picture_costs_an_attempt(status: int) -> None:
    assert isinstance(read_presign(said(status, OWN), NOW), Refused)
    assert isinstance(read_complete(said(status, OWN), NOW), Refused)


def test_a_500_is_a_refusal_and_who_is_to_blame_is_asked_later() -> None:
    assert isinstance(read_presign(said(500), NOW), Refused)


def test_a_presign_answer_is_read_and_a_login_page_is_not() -> None:
    assert read_presign(said(200, b'{"state":"stored"}'), NOW) == CloudPresignAnswer(state="stored")
    for body in (b"<html>", b"{}", b'{"state":"wanted"}'):
        away = read_presign(said(200, body), NOW)
        assert isinstance(away, Away)
        assert (away.failure.code, away.needs_person) == ("NOT_THE_CLOUD", True)


def test_nothing_but_the_clouds_own_word_marks_a_picture_as_sent() -> None:
    assert read_complete(said(200, b'{"state":"stored"}'), NOW) is None
    for body in (b"", b"ok", b'{"state":"wanted"}'):
        assert isinstance(read_complete(said(200, body), NOW), Away)
    assert isinstance(read_complete(said(404, OWN), NOW), Refused)
    away = read_complete(said(503, retry_after="7"), NOW)
    assert isinstance(away, Away)
    assert away.retry_after_seconds == 7.0


@pytest.mark.parametrize("status", [200, 201, 204, 412])
def test_an_object_that_is_there_goes_on_to_be_compared(status: int) -> None:
    assert read_stored(status, None, b"", NOW) is None


@pytest.mark.parametrize(
    ("status", "kind", "needs_person"),
    [(400, Refused, None), (411, Refused, None), (403, Away, True), (404, Away, True), (500, Away, False), (503, Away, False),
     (429, Away, False), (409, Away, False)],
)  # fmt: skip
def test_what_the_object_store_says(status: int, kind: type, needs_person: bool | None) -> None:
    body = b"<?xml?><Error><Code>SlowDown</Code><AWSAccessKeyId>not-for-the-log</AWSAccessKeyId></Error>"
    verdict = read_stored(status, None, body, NOW)
    assert isinstance(verdict, kind)
    assert isinstance(verdict, Away | Refused)
    assert verdict.failure == Failure(f"STORE_{status}", "SlowDown")
    if isinstance(verdict, Away):
        assert verdict.needs_person == needs_person


def test_what_the_edges_own_store_says() -> None:
    assert read_source(200, 10, PICTURE) is None
    assert isinstance(read_source(404, None, PICTURE), Gone)
    assert isinstance(read_source(200, 9, PICTURE), Refused)
    assert isinstance(read_source(503, None, PICTURE), Away)


def test_what_is_written_to_the_row() -> None:
    policy = RetryPolicy(attempts_max=3, backoff_cap_seconds=300)
    assert outcome_of(Sent(), 1, policy, 0.5) == Outcome(state="sent", attempt_count=1)
    assert outcome_of(Away(WHY), 1, policy, 0.5) == Outcome(state="pending", attempt_count=1, failure=WHY)
    assert outcome_of(Gone(WHY), 0, policy, 0.5) == Outcome(state="failed", attempt_count=1, failure=WHY)
    assert outcome_of(Refused(WHY), 1, policy, 0.5) == Outcome(
        state="pending", attempt_count=2, delay_seconds=4.5, failure=WHY
    )
    assert outcome_of(Refused(WHY), 2, policy, 0.5) == Outcome(state="failed", attempt_count=3, failure=WHY)

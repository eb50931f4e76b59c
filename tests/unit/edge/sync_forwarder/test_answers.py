from datetime import UTC, datetime
from uuid import UUID

import pytest

from farmiq.contracts.decoding import encode
from farmiq.contracts.sync import EventResult, answer_of
from farmiq.edge.sync_forwarder.answers import (
    NO_RESULT,
    Away,
    Judged,
    Refused,
    outcomes,
    read_answer,
    retry_after_seconds,
)
from farmiq.outbox.event import Lease
from farmiq.outbox.verdicts import Failure, Held, RetryPolicy

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GOOD, KNOWN, BAD, FORGOTTEN = (UUID(int=number) for number in range(1, 5))
ANSWER = encode(
    answer_of(
        "b-1",
        [
            EventResult(event_id=GOOD, status="accepted"),
            EventResult(event_id=KNOWN, status="duplicate"),
            EventResult(event_id=BAD, status="rejected", code="schema", message="no value"),
            EventResult(status="rejected", code="not_json"),
        ],
    )
)


def lease(event_id: UUID) -> Lease:
    return Lease(id=event_id, claim_token=1, attempt_count=0, tenant_id="demo")


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504, 511, 522])
def test_a_cloud_that_cannot_be_reached_has_judged_nothing(status: int) -> None:
    answer = read_answer(status, None, b"<html>", NOW)
    assert isinstance(answer, Away)
    assert answer.failure.code == f"HTTP_{status}"
    assert not answer.needs_person


@pytest.mark.parametrize("status", [401, 403, 404, 405, 407, 415])
def test_a_wrong_token_url_or_proxy_is_no_fault_of_the_events_but_needs_a_person(status: int) -> None:
    answer = read_answer(status, None, b'{"error": {"code": "unauthorized", "message": "no such edge"}}', NOW)
    assert answer == Away(Failure(f"HTTP_{status}", "unauthorized: no such edge"), None, needs_person=True)


@pytest.mark.parametrize("status", [400, 409, 413, 422, 500, 501])
def test_what_the_cloud_itself_says_of_the_batch_counts_against_its_events(status: int) -> None:
    body = b'{"error": {"code": "bad_batch", "message": "boom"}}'
    assert read_answer(status, None, body, NOW) == Refused(Failure(f"HTTP_{status}", "bad_batch: boom"))


@pytest.mark.parametrize("body", [b"boom", b"", b'{"error": "boom"}', b'{"error": {}}', b"\xff"])
@pytest.mark.parametrize("status", [400, 402, 409, 421, 422, 426, 451, 494, 501, 507, 508])
def test_an_error_in_anybody_elses_words_costs_nothing(status: int, body: bytes) -> None:
    """Finding 5 of the reading of the path from device to edge: 14 minutes of a SIM card's portal emptied the outbox."""
    answer = read_answer(status, None, body, NOW)
    assert isinstance(answer, Away)
    assert answer.failure.code == "NOT_THE_CLOUD"
    assert answer.failure.message.startswith(f"HTTP {status}: ")
    assert answer.needs_person


@pytest.mark.parametrize("status", [413, 500])
def test_a_500_and_what_is_too_large_count_whoever_says_so(status: int) -> None:
    assert read_answer(status, None, b"boom", NOW) == Refused(Failure(f"HTTP_{status}", "boom"))


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>please log in</html>"), (200, b""), (200, b'{"status":"ok"}'), (204, b""), (302, b""), (307, b"")],
)
def test_nothing_but_the_clouds_own_words_acknowledges(status: int, body: bytes) -> None:
    answer = read_answer(status, None, body, NOW)
    assert isinstance(answer, Away)
    assert answer.failure.code == "NOT_THE_CLOUD"


def test_each_event_has_its_own_result() -> None:
    answer = read_answer(200, None, ANSWER, NOW)
    assert answer == Judged({GOOD: None, KNOWN: None, BAD: Failure("schema", "no value")})


def test_accepted_and_duplicate_are_acknowledged_and_nothing_else_is() -> None:
    judged = read_answer(200, None, ANSWER, NOW)
    assert isinstance(judged, Judged)
    leases = [lease(event_id) for event_id in (GOOD, KNOWN, BAD, FORGOTTEN)]
    written = outcomes(leases, judged, RetryPolicy(), lambda: 0.0, lambda *_: 300.0)
    assert [outcome.status for outcome in written] == ["acked", "acked", "pending", "pending"]
    assert [outcome.attempt_count for outcome in written] == [0, 0, 1, 1]
    assert written[3].failure == NO_RESULT


def test_what_is_held_costs_no_attempt_and_waits_as_long_as_it_is_told() -> None:
    why = EventResult(event_id=BAD, status="held", code="device_of_another_edge", message="node-1 belongs to edge-1")
    judged = read_answer(200, None, encode(answer_of("b-1", [why])), NOW)
    assert isinstance(judged, Judged)
    (one,) = outcomes([lease(BAD)], judged, RetryPolicy(), lambda: 0.0, lambda _lease, held: float(len(held.code)))
    assert (one.status, one.attempt_count, one.delay_seconds, one.is_held) == ("pending", 0, 22.0, True)
    assert one.failure == Held("device_of_another_edge", "node-1 belongs to edge-1")


def test_a_refused_batch_costs_every_event_an_attempt() -> None:
    written = outcomes(
        [lease(GOOD), lease(BAD)], Refused(Failure("HTTP_500", "boom")), RetryPolicy(), lambda: 0.25, lambda *_: 300.0
    )
    assert [(one.status, one.attempt_count, one.delay_seconds) for one in written] == [("pending", 1, 2.25)] * 2


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("Thu, 01 Jan 2026 12:01:30 GMT", 90),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("", None),
        (None, None),
    ],
)
def test_both_forms_of_retry_after_are_understood(text: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(text, NOW) == seconds

"""The HTTP batch: one poison event is refused alone, and the answer can still say which one it was."""

import json
from typing import Any
from uuid import UUID

import msgspec
import pytest

from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX, EDGE_BATCH_DEPTH_MAX, EDGE_BATCH_EVENTS_MAX
from farmiq.contracts.sync import EventResult, answer_of, decode_edge_batch, event_id_of

ID = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0201"
EVENT: dict[str, Any] = {
    "event_id": ID,
    "event_type": "telemetry.ingested",
    "tenant_id": "demo",
    "occurred_at": "2025-01-01T10:05:10Z",
    "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
}
GOOD = json.dumps(EVENT).encode()


@pytest.mark.parametrize(
    ("poison", "code", "event_id"),
    [
        (b"7", "schema", None),
        (b"null", "schema", None),
        (b"{}", "schema", None),
        (b'{"event_id":"x"}', "schema", None),
        (json.dumps(EVENT | {"tenant_id": "a/b"}).encode(), "schema", ID),
        (json.dumps(EVENT | {"occurred_at": None}).encode(), "schema", ID),
        (json.dumps(EVENT | {"trace_id": "a\0b"}).encode(), "nul_character", ID),
        (GOOD.replace(b"26.4", b"[" * 40 + b"]" * 40), "too_deep", ID),
        (GOOD.replace(b'"C"', b'"\xff"'), "not_utf8", ID),
        (GOOD.replace(b'"C"', b'"' + b"C" * BUS_MESSAGE_BYTES_MAX + b'"'), "too_large", ID),
    ],
)
def test_a_poison_event_does_not_touch_its_neighbours(poison: bytes, code: str, event_id: str | None) -> None:
    batch = decode_edge_batch(b'{"batch_id":"b","events":[' + b",".join([GOOD, poison, GOOD]) + b"]}")
    before, bad, after = batch.events
    for event in (before, after):
        assert str(decode(BusEnvelope, event, max_bytes=BUS_MESSAGE_BYTES_MAX).event_id) == ID
    with pytest.raises(MalformedMessage) as caught:
        decode(BusEnvelope, bad, max_bytes=BUS_MESSAGE_BYTES_MAX)
    assert caught.value.code == code
    assert event_id_of(bad) == (UUID(event_id) if event_id else None)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "not_json"),
        (b"[", "not_json"),
        (b"7", "schema"),
        (b"{}", "schema"),
        (b'{"events":{}}', "schema"),
        (b'{"events":[],"batch_id":"a b"}', "schema"),
        (b'{"events":[],"batch_id":"\xff"}', "not_utf8"),
        (b"[" + b"1," * EDGE_BATCH_EVENTS_MAX + b"1]", "schema"),
        (b'{"events":[' + b"1," * EDGE_BATCH_EVENTS_MAX + b"1]}", "schema"),
        (b"[" * (EDGE_BATCH_DEPTH_MAX + 1) + b"]" * (EDGE_BATCH_DEPTH_MAX + 1), "too_deep"),
        (b"[" * 1_000_000, "too_deep"),
    ],
)
def test_a_body_that_is_no_batch_is_refused_whole(body: bytes, code: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_edge_batch(body)
    assert caught.value.code == code


def test_a_body_over_its_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode_edge_batch(b"\xff" * 101, max_bytes=100)
    assert caught.value.code == "too_large"


def test_nesting_up_to_the_limit_of_a_batch_needs_no_recursion_of_ours() -> None:
    depth = EDGE_BATCH_DEPTH_MAX
    assert len(decode_edge_batch(b"[" * depth + b"]" * depth).events) == 1


@pytest.mark.parametrize("body", [b"[]", b" \r\n\t[ ]", b'{"events":[]}'])
def test_an_empty_batch_is_a_batch(body: bytes) -> None:
    assert decode_edge_batch(body).events == []


def test_the_answer_counts_what_it_lists() -> None:
    results = [EventResult(status=status) for status in ("accepted", "rejected", "duplicate", "accepted")]
    answer = answer_of("b", results)
    assert (answer.accepted, answer.duplicates, answer.results) == (2, 1, results)


def test_an_event_that_is_not_json_has_no_id() -> None:
    assert event_id_of(msgspec.Raw(b'{"event_id":')) is None
    assert event_id_of(msgspec.Raw(b'{"event_id":"\xff"}')) is None

from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import Raw

from farmiq.cloud.ingestion.edges import Edge
from farmiq.cloud.ingestion.screening import Candidate, refuse_strangers, screen
from farmiq.contracts.sync import EdgeBatch, EventResult
from farmiq.kit.http_server import ApiError

EDGE = Edge("edge-1", frozenset({"demo", "second"}))
EVENT_ID = UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001")


def event(**changes: Any) -> Raw:
    fields: dict[str, Any] = {
        "event_id": str(EVENT_ID),
        "event_type": "telemetry.ingested",
        "tenant_id": "demo",
        "farm_id": "farm-1",
        "barn_id": "barn-1",
        "device_id": "node-1",
        "session_id": None,
        "occurred_at": "2025-01-01T10:00:00Z",
        "trace_id": "trace-id-123",
        "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
    }
    return Raw(msgspec.json.encode({**fields, **changes}))


def screened(raw: Raw) -> Candidate | EventResult:
    (answer,) = screen(EDGE, [raw], lambda: "made-here")
    return answer


def test_a_good_event_becomes_a_message_on_its_exchange() -> None:
    answer = screened(event())
    assert isinstance(answer, Candidate)
    assert answer.key == ("demo", EVENT_ID)
    message = answer.message
    assert (message.exchange, message.routing_key) == ("farmiq.telemetry.exchange", "telemetry.ingested")
    headers = {"x-trace-id": "trace-id-123", "x-edge-cluster-id": "edge-1"}
    assert (message.message_id, message.headers) == (str(EVENT_ID), headers)
    assert msgspec.json.decode(message.body) == msgspec.json.decode(event())


def test_a_missing_trace_id_is_made() -> None:
    answer = screened(event(trace_id=None))
    assert isinstance(answer, Candidate)
    assert msgspec.json.decode(answer.message.body)["trace_id"] == "made-here"


def test_a_name_given_twice_leaves_with_the_value_that_was_checked() -> None:
    sly = Raw(bytes(event())[:-1] + b',"tenant_id":"second"}')
    answer = screened(sly)
    assert isinstance(answer, Candidate)
    assert answer.key[0] == "second"
    assert answer.message.body.count(b'"tenant_id"') == 1


def test_a_type_that_nobody_here_knows_travels_as_it_is() -> None:
    answer = screened(event(event_type="door.opened", payload={"anything": ["goes"]}))
    assert isinstance(answer, Candidate)
    assert answer.message.exchange == "farmiq.event.exchange"


@pytest.mark.parametrize(
    ("raw", "code", "has_id"),
    [
        (event(tenant_id="stranger"), "tenant_forbidden", True),
        (event(payload={"metric_type": "temperature"}), "schema", True),
        (event(payload=[1]), "schema", True),
        (event(occurred_at="yesterday"), "schema", True),
        (event(event_type="no spaces allowed"), "schema", True),
        (event(event_id="not-a-uuid"), "schema", False),
        (event(payload={"filler": "x" * 600_000}), "too_large", True),
        (Raw(b'{"a":' * 40 + b"1" + b"}" * 40), "too_deep", False),
        (Raw(b"17"), "schema", False),
        (event(payload={"metric_type": "a\x00b", "metric_value": 1, "unit": "C"}), "nul_character", True),
    ],
)
def test_a_poison_event_is_rejected_with_its_reason(raw: Raw, code: str, has_id: bool) -> None:
    answer = screened(raw)
    assert isinstance(answer, EventResult)
    assert (answer.status, answer.code) == ("rejected", code)
    assert answer.event_id == (EVENT_ID if has_id else None)
    assert answer.message


def test_a_batch_may_not_speak_for_another_edge_or_tenant() -> None:
    refuse_strangers(EDGE, EdgeBatch(events=[]))
    refuse_strangers(EDGE, EdgeBatch(events=[], edge_cluster_id="edge-1", tenant_id="second"))
    for stranger in (EdgeBatch(events=[], edge_cluster_id="edge-2"), EdgeBatch(events=[], tenant_id="stranger")):
        with pytest.raises(ApiError) as refusal:
            refuse_strangers(EDGE, stranger)
        assert refusal.value.status == 403

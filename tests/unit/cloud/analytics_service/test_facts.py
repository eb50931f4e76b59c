"""What a message tells, with the document's own examples."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import pytest

from farmiq.cloud.analytics_service.facts import (
    CreatedFact,
    EndedFact,
    Fact,
    HeardFact,
    HeardFacts,
    HourFact,
    InferenceFact,
    LossFact,
    WeightFact,
    fact_of,
)
from farmiq.contracts import bus, event_types
from farmiq.contracts.decoding import MalformedMessage
from farmiq.contracts.telemetry import TelemetryIngested
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.kit.amqp import Delivery
from support import analytics_events as events
from support.telemetry import HERE

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
NAMES = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e"


def told(delivery: Delivery) -> Fact | None:
    return fact_of(delivery.routing_key, delivery.headers, delivery.body, NOW)


def documented(event_type: str, payload: dict[str, object], at: str, session: str | None = None) -> Fact | None:
    """An envelope of the document, as it stands there."""
    body = {
        "event_id": f"{NAMES}0100",
        "event_type": event_type,
        "tenant_id": f"{NAMES}0002",
        "farm_id": f"{NAMES}0003",
        "barn_id": f"{NAMES}0004",
        "device_id": f"{NAMES}0005",
        "session_id": session,
        "occurred_at": at,
        "trace_id": "trace-id-123",
        "payload": payload,
    }
    return fact_of(event_type, {}, msgspec.json.encode(body), NOW)


def test_the_documents_aggregate_has_its_hour_from_its_time() -> None:
    payload = {
        "metric_type": "temperature",
        "aggregation_window": "1h",
        "avg_value": 25.8,
        "min_value": 24.5,
        "max_value": 27.2,
        "unit": "C",
    }
    fact = documented(event_types.TELEMETRY_AGGREGATED, payload, "2025-01-01T10:17:00Z")
    assert isinstance(fact, HourFact)
    assert fact.hour_at == datetime(2025, 1, 1, 10, tzinfo=UTC)
    assert (fact.mean, fact.low, fact.high, fact.count, fact.revision) == (25.8, 24.5, 27.2, 0, 0)
    assert (fact.origin.barn_id, fact.metric, fact.sensor, fact.unit) == (f"{NAMES}0004", "temperature", "", "C")


def test_the_documents_other_examples() -> None:
    session = f"{NAMES}0300"
    reading = {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"}
    heard = documented(event_types.TELEMETRY_INGESTED, reading, "2025-01-01T10:00:00Z")
    assert isinstance(heard, HeardFacts)
    assert [(one.metric, one.value) for one in heard.heard] == [("temperature", 26.4)]
    begun = {"status": "created", "batch_id": f"{NAMES}0400", "initial_weight_kg": 120.5}
    fact = documented(event_types.SESSION_CREATED, begun, "2025-01-01T10:05:00Z", session)
    assert isinstance(fact, CreatedFact)
    assert (fact.session_id, fact.batch_id, fact.initial_kg) == (UUID(session), f"{NAMES}0400", 120.5)
    result = f"{NAMES}0500"
    ended = {"status": "finalized", "final_weight_kg": 121.0, "image_count": 3, "inference_result_id": result}
    end = documented(event_types.SESSION_FINALIZED, ended, "2025-01-01T10:07:00Z", session)
    assert isinstance(end, EndedFact)
    assert (end.final_kg, end.inference_result_id) == (121.0, UUID(result))
    model = {
        "inference_result_id": result,
        "predicted_weight_kg": 121.3,
        "confidence": 0.94,
        "model_version": "weighvision-v1.2.0",
    }
    inference = documented(event_types.INFERENCE_COMPLETED, model, "2025-01-01T10:06:00Z", session)
    assert isinstance(inference, InferenceFact)
    assert (inference.predicted_kg, inference.confidence, inference.result_id) == (121.3, 0.94, UUID(result))


def test_a_pack_tells_the_newest_of_each_channel() -> None:
    times = [NOW + timedelta(seconds=second) for second in (5, 1, 9, 3, 9, 2)]
    fact = told(events.pack(times, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert isinstance(fact, HeardFacts)
    # Channel 0 has two samples at 9 s, of 3.0 and 5.0: the larger one stands, whatever their order.
    assert set(fact.heard) == {
        HeardFact(HERE, "temperature", "t1", "C", NOW + timedelta(seconds=9), 5.0),
        HeardFact(HERE, "humidity", "", "%", NOW + timedelta(seconds=3), 4.0),
    }


def test_a_clock_that_is_wrong_is_not_believed() -> None:
    fact = told(events.pack([NOW + timedelta(days=2), NOW], [1.0, 2.0]))
    assert isinstance(fact, HeardFacts)
    assert [one.metric for one in fact.heard] == ["humidity"]
    reading = TelemetryIngested(metric_type="temperature", metric_value=1.0, unit="C")
    late = told(events.event(event_types.TELEMETRY_INGESTED, reading, NOW + timedelta(days=400)))
    assert late == HeardFacts(())


def test_a_loss_without_times_is_where_it_was_noticed() -> None:
    fact = told(events.loss(NOW - timedelta(hours=2), NOW, 50))
    assert isinstance(fact, LossFact)
    assert (fact.first_at, fact.last_at, fact.samples) == (NOW - timedelta(hours=2), NOW, 50)
    body = events.loss(NOW, NOW, 50).body.replace(b'"first_ts"', b'"x"').replace(b'"last_ts"', b'"y"')
    bare = fact_of(event_types.TELEMETRY_LOSS, {}, body, NOW)
    assert isinstance(bare, LossFact)
    assert bare.first_at == bare.last_at == NOW


def test_a_weight_belongs_to_its_session() -> None:
    session = uuid4()
    fact = told(events.weight(session, NOW, 44.5))
    assert isinstance(fact, WeightFact)
    assert (fact.session_id, fact.weight_kg) == (session, 44.5)


def test_what_tells_nothing_here_is_passed_over() -> None:
    sample = events.event(
        event_types.TELEMETRY_INGESTED, TelemetryIngested(metric_type="co2", metric_value=800.0, unit="ppm"), NOW
    )
    assert fact_of(sample.routing_key, {bus.EXPANDED_HEADER: "pack"}, sample.body, NOW) is None
    picture = events.event(event_types.IMAGE_CAPTURED, ImageCaptured(media_id=uuid4()), NOW, session_id=uuid4())
    assert told(picture) is None
    assert fact_of("weighvision.station.cleaned", {}, b"not even JSON", NOW) is None
    day = events.hour(NOW, 20.0).body.replace(b'"1h"', b'"1d"')
    assert fact_of(event_types.TELEMETRY_AGGREGATED, {}, day, NOW) is None
    without = events.seen(uuid4(), NOW, 1.0).body
    alone = msgspec.json.encode({**msgspec.json.decode(without), "session_id": None})
    assert fact_of(event_types.INFERENCE_COMPLETED, {}, alone, NOW) is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"barn_id": None}, "schema"),
        ({"device_id": None}, "schema"),
        ({"payload": {}}, "schema"),
        ({"event_type": "door.opened"}, "schema"),
        (
            {
                "payload": {
                    "metric_type": "x",
                    "aggregation_window": "1h",
                    "avg_value": 1,
                    "min_value": 3,
                    "max_value": 2,
                }
            },
            "schema",
        ),
    ],
)
def test_what_can_never_be_good_is_refused(change: dict[str, object], code: str) -> None:
    good = msgspec.json.decode(events.hour(NOW, 20.0).body)
    with pytest.raises(MalformedMessage) as refused:
        fact_of(event_types.TELEMETRY_AGGREGATED, {}, msgspec.json.encode({**good, **change}), NOW)
    assert refused.value.code == code


def test_an_hour_begins_at_an_hour_and_a_session_has_a_name() -> None:
    crooked = events.hour(NOW + timedelta(minutes=30), 20.0)
    with pytest.raises(MalformedMessage, match="no window 1h begins at"):
        told(crooked)
    nameless = msgspec.json.decode(events.created(uuid4(), NOW).body)
    with pytest.raises(MalformedMessage, match="needs session_id"):
        fact_of(event_types.SESSION_CREATED, {}, msgspec.json.encode({**nameless, "session_id": None}), NOW)
    with pytest.raises(MalformedMessage, match="not_json"):
        fact_of(event_types.SESSION_CREATED, {}, b"{", NOW)

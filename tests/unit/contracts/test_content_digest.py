"""The digest by which the cloud recognises an event that comes again."""

from typing import Any

import msgspec
import pytest

from farmiq.contracts.decoding import decode
from farmiq.contracts.envelope import BusEnvelope, content_digest
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX

READING: dict[str, Any] = {
    "event_id": "019b76da-a800-7000-8000-000000000001",
    "event_type": "telemetry.ingested",
    "tenant_id": "demo",
    "farm_id": "farm-1",
    "barn_id": "barn-1",
    "device_id": "node-1",
    "occurred_at": "2026-01-01T10:00:00Z",
    "trace_id": "trace-1",
    "payload": {"metric_type": "temperature", "metric_value": 26.4, "unit": "C"},
}
TEMPERATURE, HUMIDITY = {"metric": "temperature", "unit": "C"}, {"metric": "humidity", "unit": "%"}
PACK = READING | {
    "event_type": "telemetry.batch.ingested",
    "payload": {
        "stream_id": "019b76da-a800-7000-8000-000000000002",
        "boot_id": "019b76da-a800-7000-8000-000000000003",
        "lane": "live",
        "seq0": 5,
        "time_quality": 2,
        "channels": [TEMPERATURE, HUMIDITY],
        "t": [1735725600000000, 1735725600000001],
        "c": [0, 1],
        "v": [26.4, 60.0],
    },
}
BEGUN = READING | {"event_type": "weighvision.session.created", "payload": {"status": "created", "batch_id": "b1"}}
STORED = READING | {"event_type": "media.stored", "payload": {"media_id": READING["event_id"], "size_bytes": 7}}


def digest(event: dict[str, Any]) -> bytes:
    return content_digest(decode(BusEnvelope, msgspec.json.encode(event), max_bytes=BUS_MESSAGE_BYTES_MAX))


def with_payload(event: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return event | {"payload": event["payload"] | changes}


@pytest.mark.parametrize(
    ("event", "again"),
    [
        (READING, READING | {"trace_id": "another"}),
        (READING, READING | {"occurred_at": "2026-01-01T11:00:00+01:00"}),
        (READING, READING | {"payload": dict(reversed(READING["payload"].items()))}),
        (READING, with_payload(READING, sensor=None)),
        (PACK, with_payload(PACK, lane="replay")),
        (PACK, with_payload(PACK, channels=[{"metric": "unused"}, HUMIDITY, TEMPERATURE], c=[2, 1])),
        (STORED, STORED | {"occurred_at": "2026-01-02T10:00:00Z"}),
        (BEGUN, with_payload(BEGUN, initial_weight_kg=87.5)),
    ],
    ids=[
        "trace",
        "time zone",
        "order of members",
        "null",
        "lane",
        "channels listed otherwise",
        "work done again",
        "first weight known by now",
    ],
)
def test_the_same_event_delivered_otherwise_has_the_same_digest(event: dict[str, Any], again: dict[str, Any]) -> None:
    assert digest(event) == digest(again)


@pytest.mark.parametrize(
    ("event", "other"),
    [
        (READING, READING | {"device_id": "node-2"}),
        (READING, READING | {"barn_id": None}),
        (READING, READING | {"event_type": "pump.alarm"}),
        (READING, READING | {"session_id": READING["event_id"]}),
        (READING, READING | {"occurred_at": "2026-01-01T10:00:00.000001Z"}),
        (READING, with_payload(READING, metric_value=26.5)),
        (READING, with_payload(READING, sensor="t1")),
        (PACK, with_payload(PACK, c=[1, 0])),
        (PACK, with_payload(PACK, v=[26.4, -273.0])),
        (STORED, with_payload(STORED, size_bytes=8)),
        (BEGUN, with_payload(BEGUN, batch_id="b2")),
    ],
)
def test_another_event_has_another_digest(event: dict[str, Any], other: dict[str, Any]) -> None:
    assert digest(event) != digest(other)

"""docs/reference/asyncapi.yaml: whole in itself, and true of the messages that our own code makes and takes.

What AsyncAPI 3 asks of a document of this kind is checked here by hand, without its own validator, which needs Node.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML comes without types

from farmiq.contracts import bus, event_types, topics
from farmiq.contracts.ack import DeviceAck, EventAck
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BUS_PAYLOADS, DEVICE_PAYLOADS, bus_envelope, mqtt_envelope
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import Channel, Reading, TelemetryBatch, TelemetryLoss, pack_of
from support.documents import DOCS
from support.json_schema import complaints

DOCUMENT: dict[str, Any] = yaml.safe_load((DOCS / "reference" / "asyncapi.yaml").read_text("utf-8"))
NOW = datetime(2026, 11, 16, 10, tzinfo=UTC)
BATCH = TelemetryBatch(
    stream_id=uuid4(),
    boot_id=uuid4(),
    lane="live",
    seq0=1,
    time_quality=2,
    channels=[Channel(metric="temperature", unit="C", sensor="t1")],
    t=[1_790_000_000_000_000, 1_790_000_001_000_000],
    c=[0, 0],
    v=[20.5, 21.0],
)
LOSS = TelemetryLoss(stream_id=uuid4(), first_seq=1, last_seq=9, count=9, reason="spool_cap", dropped_at=NOW)


def resolved(reference: str) -> Any:
    part: Any = DOCUMENT
    for word in reference.removeprefix("#/").split("/"):
        part = part[word]
    return part


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def message_complaints(name: str, body: bytes) -> list[str]:
    return complaints(json.loads(body), DOCUMENT["components"]["messages"][name]["payload"], DOCUMENT)


# --- The document in itself ----------------------------------------------------------------------------------------------------


def test_the_document_has_what_asyncapi_3_asks_for() -> None:
    assert re.fullmatch(r"3\.\d+\.\d+", DOCUMENT["asyncapi"])
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    allowed = {"asyncapi", "id", "info", "servers", "defaultContentType", "channels", "operations", "components"}
    assert DOCUMENT.keys() <= allowed
    for server in DOCUMENT["servers"].values():
        assert {"host", "protocol"} <= server.keys()
        assert set(re.findall(r"{(\w+)}", server["host"])) == server["variables"].keys()


def test_every_reference_leads_somewhere() -> None:
    found = list(references(DOCUMENT))
    assert len(found) > 100
    for reference in found:
        assert resolved(reference), reference


def test_every_parameter_of_an_address_is_described_and_no_other() -> None:
    for name, channel in DOCUMENT["channels"].items():
        assert set(re.findall(r"{(\w+)}", channel["address"])) == channel["parameters"].keys(), name
        assert channel["messages"], name


def test_every_operation_names_messages_of_its_own_channel() -> None:
    assert {operation["channel"]["$ref"].rpartition("/")[2] for operation in DOCUMENT["operations"].values()} == set(
        DOCUMENT["channels"]
    )
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in {"send", "receive"}
        inside = operation["channel"]["$ref"] + "/messages/"
        assert all(message["$ref"].startswith(inside) for message in operation["messages"])


def test_every_message_type_and_exchange_of_the_contracts_is_there() -> None:
    messages = DOCUMENT["components"]["messages"].keys()
    assert {f"device.{name}" for name in DEVICE_PAYLOADS} | {f"bus.{name}" for name in BUS_PAYLOADS} < messages
    exchanges = {
        channel["bindings"]["amqp"]["exchange"]["name"]
        for channel in DOCUMENT["channels"].values()
        if "bindings" in channel
    }
    assert exchanges == set(bus.EXCHANGES)


def test_addresses_are_topics_that_the_gateway_reads() -> None:
    values = {
        "tenantId": "demo", "farmId": "farm-1", "barnId": "barn-1", "deviceId": "node-1", "stationId": "scale-1",
        "sessionId": str(uuid4()), "metric": "temperature", "eventType": "door.opened",
    }  # fmt: skip
    kinds = {
        name: type(topics.parse(channel["address"].format(**values))).__name__
        for name, channel in DOCUMENT["channels"].items()
        if name not in bus.EXCHANGES
    }
    assert kinds == {
        "reading": "TelemetryTopic",
        "batch": "TelemetryBatchTopic",
        "event": "EventTopic",
        "session": "WeighvisionTopic",
        "status": "StatusTopic",
        "ack": "AckTopic",
    }


# --- The document and our messages ---------------------------------------------------------------------------------------------


def from_device(event_type: str, payload: Any) -> bytes:
    envelope = mqtt_envelope(
        payload, event_id=uuid4(), event_type=event_type, tenant_id="demo", device_id="node-1", ts=NOW
    )
    return encode(envelope)


def on_the_bus(event_type: str, payload: Any) -> bytes:
    envelope = bus_envelope(
        payload, event_id=uuid4(), event_type=event_type, tenant_id="demo", device_id="node-1", occurred_at=NOW
    )
    return encode(envelope)


MESSAGES = {
    "device.telemetry.reading": from_device(event_types.TELEMETRY_READING, Reading(value=4.2, unit="bar")),
    "device.telemetry.batch": from_device(event_types.TELEMETRY_BATCH, BATCH),
    "device.telemetry.loss": from_device(event_types.TELEMETRY_LOSS, LOSS),
    "device.device.status": from_device(event_types.DEVICE_STATUS, DeviceStatus(state="online", spool_bytes=9)),
    "bus.telemetry.batch.ingested": on_the_bus(event_types.TELEMETRY_BATCH_INGESTED, pack_of(BATCH, 1, 2)),
    "bus.telemetry.loss": on_the_bus(event_types.TELEMETRY_LOSS, LOSS),
    "edge.ack": encode(
        DeviceAck(
            epoch=uuid4(),
            ts=NOW,
            stream_id=uuid4(),
            acked_seq=7,
            received=[(9, 12)],
            events=[EventAck(event_id=uuid4(), result="rejected", code="schema")],
        )
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_of_ours_is_as_the_document_says(name: str) -> None:
    assert message_complaints(name, MESSAGES[name]) == []


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("device.telemetry.reading", ["event_id"], "not a uuid"),
        ("device.telemetry.reading", ["event_type"], "telemetry.batch"),
        ("device.telemetry.reading", ["tenant_id"], "a/b"),
        ("device.telemetry.batch", ["payload", "lane"], "slow"),
        ("device.telemetry.batch", ["payload", "seq0"], 0),
        ("device.telemetry.batch", ["payload", "t"], []),
        ("edge.ack", ["received"], [[1, 2, 3]]),
        ("edge.ack", ["events"], [{"event_id": "0190d5a2-7c1f-7c3e-9b1a-2f6f3c9d4e60", "result": "maybe"}]),
    ],
)
def test_a_message_that_is_wrong_is_wrong_by_the_document_too(name: str, path: list[str], value: Any) -> None:
    message = json.loads(MESSAGES[name])
    part = message
    for word in path[:-1]:
        part = part[word]
    part[path[-1]] = value
    assert message_complaints(name, json.dumps(message).encode()) != []


def test_the_messages_in_the_guide_are_as_the_document_says() -> None:
    page = (DOCS / "guides" / "connect-a-device.md").read_text("utf-8")
    reading, ack = (found for found in re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert message_complaints("device.telemetry.reading", reading.encode()) == []
    assert message_complaints("edge.ack", ack.encode()) == []


def test_what_the_esp32_sketch_writes_is_as_the_document_says() -> None:
    sketch = (DOCS / "guides" / "esp32-sensor.ino").read_text("utf-8")
    reading, dropped = (_written_by(sketch, name) for name in ("telemetry.reading", "sensor.readings_dropped"))
    first = (str(uuid4()), "demo", "pump-7", "2026-11-16T10:00:00.123Z", 4.2)
    assert message_complaints("device.telemetry.reading", (reading % first).encode()) == []
    assert message_complaints("device.own", (dropped.replace("%u", "%d") % (*first[:4], 17)).encode()) == []


def _written_by(sketch: str, event_type: str) -> str:
    """The format of a message's body: string literals that stand one after the other, as C puts them together."""
    for body in re.findall(r'snprintf\(body, sizeof body,\s*((?:"(?:[^"\\]|\\.)*"\s*)+),', sketch):
        text = "".join(json.loads(f'"{part}"') for part in re.findall(r'"((?:[^"\\]|\\.)*)"', body))
        if event_type in text:
            return text
    raise AssertionError(f"the sketch writes no {event_type}")

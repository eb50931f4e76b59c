"""The JSON of the documents, as it stands there: we must read it, and write it back with nothing changed."""

import json
from pathlib import Path

import msgspec
import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.bus import exchange_for
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import BUS_PAYLOADS, DEVICE_PAYLOADS, BusEnvelope, MqttEnvelope, payload_of
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX, MQTT_MESSAGE_BYTES_MAX
from farmiq.contracts.media import MediaStored, PresignAnswer, PresignRequest
from farmiq.contracts.sync import EdgeBatchAnswer, decode_edge_batch
from farmiq.contracts.telemetry import Reading, TelemetryBatch, TelemetryLoss

VECTORS = Path(__file__).parent / "vectors"
DEVICE_VECTORS = sorted(VECTORS.glob("device.*.json"))
BUS_VECTORS = sorted(VECTORS.glob("bus.*.json"))


def written(message: object) -> object:
    return json.loads(encode(message))


def test_every_example_of_the_documents_is_here() -> None:
    assert (len(DEVICE_VECTORS), len(BUS_VECTORS)) == (3, 8)


@pytest.mark.parametrize("vector", DEVICE_VECTORS, ids=lambda path: path.stem)
def test_what_a_station_sends_is_read_and_written_back_unchanged(vector: Path) -> None:
    envelope = decode(MqttEnvelope, vector.read_bytes(), max_bytes=MQTT_MESSAGE_BYTES_MAX)
    payload = payload_of(envelope)
    assert type(payload) is DEVICE_PAYLOADS[vector.stem.removeprefix("device.")]
    document = json.loads(vector.read_text())
    assert written(envelope) == document
    assert written(payload) == document["payload"]


@pytest.mark.parametrize("vector", BUS_VECTORS, ids=lambda path: path.stem)
def test_what_the_bus_carries_is_read_and_written_back_unchanged(vector: Path) -> None:
    envelope = decode(BusEnvelope, vector.read_bytes(), max_bytes=BUS_MESSAGE_BYTES_MAX)
    payload = payload_of(envelope)
    assert type(payload) is BUS_PAYLOADS[vector.stem.removeprefix("bus.")]
    document = json.loads(vector.read_text())
    assert written(envelope) == document
    assert written(payload) == document["payload"]
    assert exchange_for(envelope.event_type) == f"farmiq.{envelope.event_type.split('.')[0]}.exchange"


def test_the_examples_together_are_an_edge_batch_in_both_forms() -> None:
    events = [json.loads(vector.read_text()) for vector in BUS_VECTORS]
    body = {"batch_id": "batch-20250101-01", "edge_cluster_id": "edge-01", "tenant_id": "demo", "events": events}
    whole = decode_edge_batch(json.dumps(body).encode())
    bare = decode_edge_batch(json.dumps(events, indent=1).encode())
    assert (whole.batch_id, whole.edge_cluster_id, whole.tenant_id) == ("batch-20250101-01", "edge-01", "demo")
    assert (bare.batch_id, bare.edge_cluster_id, bare.tenant_id) == (None, None, None)
    for batch in (whole, bare):
        envelopes = [decode(BusEnvelope, event, max_bytes=BUS_MESSAGE_BYTES_MAX) for event in batch.events]
        assert [written(envelope) for envelope in envelopes] == events


def test_the_batch_of_the_design_is_read() -> None:
    batch = decode(
        TelemetryBatch,
        b"""{"stream_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001", "boot_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0002",
             "lane": "live", "seq0": 1001, "time_quality": 2,
             "channels": [{"metric": "temperature", "unit": "C", "sensor": "t1"}],
             "t": [1735725600000000], "c": [0], "v": [26.4]}""",
        max_bytes=1000,
    )
    assert (batch.count, batch.seq0, batch.last_seq, batch.v) == (1, 1001, 1001, [26.4])
    assert batch.channels[0].sensor == "t1"


@pytest.mark.parametrize(
    "data",
    [
        b'{"value": 26.4, "unit": "C"}',
        b'{"metric_value": 26.4, "metric_type": "temperature", "unit": "C"}',
        b'{"value": 26.4, "metric_value": 26.4, "unit": "C"}',
    ],
)
def test_a_reading_comes_with_short_or_long_names(data: bytes) -> None:
    reading = decode(Reading, data, max_bytes=1000)
    assert (reading.value, reading.unit) == (26.4, "C")
    assert b'"value":26.4' in encode(reading)


def test_the_acknowledgement_of_the_design_is_read() -> None:
    ack = decode(
        DeviceAck,
        b"""{"stream_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001", "acked_seq": 40, "received": [[51, 60], [71, 71]],
             "epoch": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0009", "ts": "2025-01-01T10:00:00Z",
             "events": [{"event_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0200", "result": "stored"}]}""",
        max_bytes=1000,
    )
    assert ack.received == [(51, 60), (71, 71)]
    assert ack.events[0].result == "stored"


def test_the_loss_of_the_design_is_read() -> None:
    document = {
        "stream_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0001",
        "first_seq": 1,
        "last_seq": 900,
        "count": 900,
        "first_ts": "2025-01-01T10:00:00Z",
        "last_ts": "2025-01-01T10:15:00Z",
        "reason": "spool_full",
        "dropped_at": "2025-01-03T10:00:00Z",
    }
    loss = decode(TelemetryLoss, json.dumps(document).encode(), max_bytes=1000)
    assert written(loss) == document


def test_the_answer_of_the_design_is_read() -> None:
    document = {
        "batch_id": "b-1",
        "accepted": 1,
        "duplicates": 0,
        "results": [
            {"event_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0200", "status": "accepted"},
            {"event_id": None, "status": "rejected", "code": "schema", "message": "no"},
        ],
    }
    answer = decode(EdgeBatchAnswer, json.dumps(document).encode(), max_bytes=1000)
    assert [result.status for result in answer.results] == ["accepted", "rejected"]


def test_the_presign_call_uses_the_documented_names() -> None:
    document = {
        "tenantId": "demo",
        "farmId": "farm-1",
        "barnId": "barn-1",
        "deviceId": "wv-1",
        "stationId": "station-1",
        "sessionId": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0300",
        "traceId": "trace-id-789",
        "capturedAt": "2025-01-01T10:05:00Z",
        "contentType": "image/jpeg",
        "contentLength": 204800,
    }
    request = decode(PresignRequest, json.dumps(document).encode(), max_bytes=1000)
    assert written(request) == document
    for optional in ("stationId", "sessionId", "contentLength"):
        del document[optional]
    assert written(decode(PresignRequest, json.dumps(document).encode(), max_bytes=1000)) == document
    fields = [field.encode_name for field in msgspec.structs.fields(PresignAnswer)]
    assert fields[:3] == ["upload_url", "media_id", "expires_at"]


def test_a_stored_picture_names_its_bucket_and_key() -> None:
    document = {
        "media_id": "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0601",
        "mime_type": "image/jpeg",
        "size_bytes": 204800,
        "bucket": "farmiq-media",
        "object_key": "tenants/demo/farms/f/barns/b/devices/d/images/2025/01/01/x.jpg",
    }
    assert written(decode(MediaStored, json.dumps(document).encode(), max_bytes=1000)) == document

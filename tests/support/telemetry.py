"""Batches, readings and losses of a device, as MQTT messages and as bus messages."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from farmiq.contracts import event_types, topics
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusPayload, DevicePayload, bus_envelope, mqtt_envelope
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import Channel, Reading, TelemetryBatch, TelemetryLoss
from farmiq.kit.ids import new_id
from farmiq.kit.mqtt import Message
from farmiq.timeseries.stream import Origin

HERE = Origin("demo", "farm-1", "barn-1", "node-1")
NEIGHBOUR = Origin("demo", "farm-1", "barn-1", "node-2")
ELSEWHERE = Origin("other", "farm-9", "barn-9", "node-9")
CHANNELS = [Channel(metric="temperature", unit="C", sensor="t1"), Channel(metric="humidity", unit="%")]
START_US = 1_790_000_000_000_000
NOW = datetime(2026, 11, 16, tzinfo=UTC)


def batch_of(stream_id: UUID, first: int, last: int) -> TelemetryBatch:
    """Samples whose value is their sequence, one a second on two channels in turn."""
    seqs = range(first, last + 1)
    return TelemetryBatch(
        stream_id=stream_id,
        boot_id=uuid4(),
        lane="live",
        seq0=first,
        time_quality=2,
        channels=CHANNELS,
        t=[START_US + seq * 1_000_000 for seq in seqs],
        c=[seq % 2 for seq in seqs],
        v=[float(seq) for seq in seqs],
    )


def loss_of(stream_id: UUID, first: int, last: int) -> TelemetryLoss:
    return TelemetryLoss(
        stream_id=stream_id, first_seq=first, last_seq=last, count=last - first + 1, reason="spool_cap", dropped_at=NOW
    )


def batch_message(
    stream_id: UUID, first: int, last: int, origin: Origin = HERE, event_id: UUID | None = None
) -> Message:
    return _message(
        _place(origin, "batch"), event_types.TELEMETRY_BATCH, batch_of(stream_id, first, last), origin, event_id
    )


def batch_message_of(batch: TelemetryBatch, origin: Origin = HERE) -> Message:
    return _message(_place(origin, "batch"), event_types.TELEMETRY_BATCH, batch, origin, None)


def reading_message(value: float, origin: Origin = HERE, event_id: UUID | None = None) -> Message:
    payload = Reading(value=value, unit="C")
    return _message(_place(origin, "temperature"), event_types.TELEMETRY_READING, payload, origin, event_id)


def loss_message(
    stream_id: UUID, first: int, last: int, origin: Origin = HERE, event_id: UUID | None = None
) -> Message:
    topic = _place(origin, event_types.TELEMETRY_LOSS).replace("iot/telemetry/", "iot/event/")
    return _message(topic, event_types.TELEMETRY_LOSS, loss_of(stream_id, first, last), origin, event_id)


def status_message(status: DeviceStatus, origin: Origin = HERE, event_id: UUID | None = None) -> Message:
    topic = topics.StatusTopic(
        tenant_id=origin.tenant_id, farm_id=origin.farm_id, barn_id=origin.barn_id, device_id=origin.device_id
    )
    return _message(topic.path, event_types.DEVICE_STATUS, status, origin, event_id)


def raw_message(topic: str, payload: bytes) -> Message:
    return Message(topic, payload, qos=1, is_retained=False, is_redelivered=False, mid=0, connection=1)


def bus_body(event_type: str, payload: BusPayload, origin: Origin = HERE, event_id: UUID | None = None) -> bytes:
    return encode(
        bus_envelope(
            payload,
            event_id=event_id or new_id(),
            event_type=event_type,
            tenant_id=origin.tenant_id,
            farm_id=origin.farm_id,
            barn_id=origin.barn_id,
            device_id=origin.device_id,
            occurred_at=NOW,
            trace_id="trace-1",
        )
    )


def _place(origin: Origin, last: str) -> str:
    return f"iot/telemetry/{origin.tenant_id}/{origin.farm_id}/{origin.barn_id}/{origin.device_id}/{last}"


def _message(topic: str, event_type: str, payload: DevicePayload, origin: Origin, event_id: UUID | None) -> Message:
    envelope = mqtt_envelope(
        payload,
        event_id=event_id or new_id(),
        event_type=event_type,
        tenant_id=origin.tenant_id,
        device_id=origin.device_id,
        ts=NOW,
        trace_id="trace-1",
    )
    return raw_message(topic, encode(envelope))

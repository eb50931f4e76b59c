"""Is this message one of ours, and whose? Decided from its bytes alone."""

from datetime import datetime
from hashlib import blake2b
from uuid import UUID

import msgspec

from farmiq.contracts import event_types, topics
from farmiq.contracts.ack import NOT_NOW
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import MqttEnvelope, payload_of
from farmiq.contracts.limits import MQTT_MESSAGE_BYTES_MAX
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import Reading, TelemetryBatch, TelemetryLoss
from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.ingress_gateway.integrator_events import IntegratorEvent, LoneCapture, integrator_event
from farmiq.edge.weighvision_session.events import Said, SessionEvent
from farmiq.kit.ids import new_trace_id
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin

Body = StreamBatch | SingleReading | TelemetryLoss | DeviceStatus | SessionEvent | LoneCapture | IntegratorEvent

DeviceTopic = (
    topics.TelemetryTopic
    | topics.TelemetryBatchTopic
    | topics.EventTopic
    | topics.WeighvisionTopic
    | topics.StatusTopic
)

# Which event type each topic carries; the others say it in the topic itself.
_EVENT_TYPE_OF_TOPIC: dict[type, str] = {
    topics.TelemetryTopic: event_types.TELEMETRY_READING,
    topics.TelemetryBatchTopic: event_types.TELEMETRY_BATCH,
    topics.StatusTopic: event_types.DEVICE_STATUS,
}


class Screened(msgspec.Struct, frozen=True, eq=False):
    """A well-formed message of the device that its topic names. Each is itself only: the same bytes twice are two."""

    origin: Origin
    event_id: UUID
    trace_id: str
    ts: datetime
    body: Body
    is_retained: bool = False
    """Kept by the broker and handed to a new subscriber: how long ago it was sent, nobody knows."""
    is_trace_made: bool = False
    """The device gave none, so the trace begins here."""
    station_id: str | None = None
    """The weigh station in the topic. The register says whether it is this device's."""

    @property
    def is_told_by_id(self) -> bool:
        """A batch is acknowledged by its stream's mark and a status by nothing; everything else by its event id."""
        return not isinstance(self.body, StreamBatch | DeviceStatus)


class Refusal(msgspec.Struct, frozen=True):
    """Why a message is not taken, and as much of its identity as could be read."""

    code: str
    detail: str
    tenant_id: str | None = None
    device_id: str | None = None
    event_id: UUID | None = None
    trace_id: str | None = None

    @property
    def is_put_off(self) -> bool:
        """It may be taken later: the device is not told that it is rejected, and keeps it."""
        return self.code in NOT_NOW


def screen(topic: str, payload: bytes, *, is_retained: bool = False) -> Screened | Refusal:
    """Topic, envelope and payload are each well-formed, and agree."""
    place: DeviceTopic | None = None
    envelope: MqttEnvelope | None = None
    try:
        place = _device_topic(topic)
        envelope = decode(MqttEnvelope, payload, max_bytes=MQTT_MESSAGE_BYTES_MAX)
        _agree(place, envelope)
        origin = _origin(place, envelope)
        body = _body(place, origin, envelope)
    except MalformedMessage as reason:
        return Refusal(
            reason.code,
            reason.detail,
            tenant_id=place.tenant_id if place else None,
            device_id=_speaker(place) if place else None,
            event_id=envelope.event_id if envelope else _readable_id(payload, reason),
            trace_id=(envelope.trace_id if envelope else None) or new_trace_id(),
        )
    trace_id = envelope.trace_id or new_trace_id()
    is_trace_made = envelope.trace_id is None
    station_id = place.station_id if isinstance(place, topics.WeighvisionTopic) else None
    return Screened(origin, envelope.event_id, trace_id, envelope.ts, body, is_retained, is_trace_made, station_id)


def fingerprint(message: Screened) -> str | None:
    """What the event id stands for, where a repetition is answered by the id alone: an id that comes back with something
    else in it must not pass for a delivery repeated. From what was understood, so spaces and trace ids make no difference; what
    nobody here understands is compared as it was sent."""
    if not message.is_told_by_id:
        return None
    return blake2b(msgspec.json.encode(message.body), digest_size=16).hexdigest()


def refuse(message: Screened, code: str, detail: str) -> Refusal:
    origin = message.origin
    return Refusal(code, detail, origin.tenant_id, origin.device_id, message.event_id, message.trace_id)


class _Named(msgspec.Struct, frozen=True):
    event_id: UUID


def _readable_id(payload: bytes, reason: MalformedMessage) -> UUID | None:
    """Of an envelope in which something else is wrong: a device that is not answered by id says the same again for ever."""
    if reason.code not in ("schema", "unsupported_schema_version"):
        return None  # larger or deeper than is read here, or no JSON
    try:
        return msgspec.json.decode(payload, type=_Named).event_id
    except msgspec.MsgspecError:
        return None


def _device_topic(topic: str) -> DeviceTopic:
    place = topics.parse(topic)
    if not isinstance(place, DeviceTopic):
        raise MalformedMessage("bad_topic", f"{topic[:200]!r} is not a topic that devices send on")
    return place


def _agree(place: DeviceTopic, envelope: MqttEnvelope) -> None:
    if isinstance(place, topics.EventTopic | topics.WeighvisionTopic):
        expected = place.event_type
    else:
        expected = _EVENT_TYPE_OF_TOPIC[type(place)]
    claims = {
        "tenant_id": (envelope.tenant_id, place.tenant_id),
        "event_type": (envelope.event_type, expected),
    }
    if not isinstance(place, topics.WeighvisionTopic):
        claims["device_id"] = (envelope.device_id, place.device_id)
    for name, (claimed, actual) in claims.items():
        if claimed != actual:
            raise MalformedMessage(
                "topic_mismatch", f"{name} is {claimed!r} in the envelope and {actual!r} in the topic"
            )


def _body(place: DeviceTopic, origin: Origin, envelope: MqttEnvelope) -> Body:
    if isinstance(place, topics.EventTopic):
        return _event(envelope)
    payload = payload_of(envelope)
    match place, payload:
        case topics.TelemetryBatchTopic(), TelemetryBatch() as batch:
            return StreamBatch(origin, batch)
        case topics.TelemetryTopic(metric=metric), Reading() as reading:
            if reading.metric_type not in (None, metric):
                raise MalformedMessage(
                    "topic_mismatch", f"metric_type is {reading.metric_type!r}, the topic says {metric!r}"
                )
            return SingleReading(origin, envelope.event_id, envelope.ts, metric, reading.value, reading.unit)
        case topics.StatusTopic(), DeviceStatus() as status:
            return status
        case topics.WeighvisionTopic(session_id=session_id), payload if isinstance(payload, Said):
            return SessionEvent(origin, session_id, envelope.event_id, envelope.ts, payload)
    raise MalformedMessage("unknown_event_type", f"{envelope.event_type} does not belong on this topic")


def _event(envelope: MqttEnvelope) -> Body:
    """Two of our own types come on the event topic. Any other must be none of ours."""
    if envelope.event_type not in (event_types.TELEMETRY_LOSS, event_types.IMAGE_CAPTURED):
        return integrator_event(envelope)
    payload = payload_of(envelope)
    if isinstance(payload, ImageCaptured):
        return LoneCapture(envelope.ts, payload)
    assert isinstance(payload, TelemetryLoss)  # noqa: S101 - the type says so
    return payload


def _speaker(place: DeviceTopic) -> str:
    """Of a message that can't be read further. A station's device has its name, unless it was given another."""
    return place.station_id if isinstance(place, topics.WeighvisionTopic) else place.device_id


def _origin(place: DeviceTopic, envelope: MqttEnvelope) -> Origin:
    return Origin(place.tenant_id, place.farm_id, place.barn_id, envelope.device_id)

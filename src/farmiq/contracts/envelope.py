"""The two envelopes, and which payload each event type carries in each of them.

A device's envelope says who sent it; where that device stands is in the topic. A bus envelope says all of it, because
nobody in the cloud sees the topic.
"""

from collections.abc import Mapping
from datetime import datetime
from hashlib import blake2b
from typing import Annotated, Any, Final, overload
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from farmiq.contracts import event_types
from farmiq.contracts.decoding import SCHEMA_VERSION, MalformedMessage, encode, parse, refuse_schema_version
from farmiq.contracts.ids import DeviceId, EventType, Id, TraceId
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.media import MediaStored
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.sync import SyncBatchAcked, SyncBatchSent
from farmiq.contracts.telemetry import (
    Reading,
    TelemetryAggregated,
    TelemetryBatch,
    TelemetryBatchIngested,
    TelemetryIngested,
    TelemetryLoss,
)
from farmiq.contracts.timestamps import Timestamp, keep_utc
from farmiq.contracts.weighvision import (
    ImageCaptured,
    SessionCancelled,
    SessionCreated,
    SessionFinalized,
    StationSessionCancelled,
    StationSessionCreated,
    StationSessionFinalized,
    WeightRecorded,
)

DevicePayload = (
    Reading
    | TelemetryBatch
    | TelemetryLoss
    | DeviceStatus
    | StationSessionCreated
    | WeightRecorded
    | ImageCaptured
    | StationSessionFinalized
    | StationSessionCancelled
)
BusPayload = (
    TelemetryIngested
    | TelemetryBatchIngested
    | TelemetryLoss
    | TelemetryAggregated
    | SessionCreated
    | WeightRecorded
    | ImageCaptured
    | SessionFinalized
    | SessionCancelled
    | MediaStored
    | InferenceCompleted
    | SyncBatchSent
    | SyncBatchAcked
)

DEVICE_PAYLOADS: Final[Mapping[str, type[DevicePayload]]] = {
    event_types.TELEMETRY_READING: Reading,
    event_types.TELEMETRY_BATCH: TelemetryBatch,
    event_types.TELEMETRY_LOSS: TelemetryLoss,
    event_types.DEVICE_STATUS: DeviceStatus,
    event_types.SESSION_CREATED: StationSessionCreated,
    event_types.WEIGHT_RECORDED: WeightRecorded,
    event_types.IMAGE_CAPTURED: ImageCaptured,
    event_types.SESSION_FINALIZED: StationSessionFinalized,
    event_types.SESSION_CANCELLED: StationSessionCancelled,
}
BUS_PAYLOADS: Final[Mapping[str, type[BusPayload]]] = {
    event_types.TELEMETRY_INGESTED: TelemetryIngested,
    event_types.TELEMETRY_BATCH_INGESTED: TelemetryBatchIngested,
    event_types.TELEMETRY_LOSS: TelemetryLoss,
    event_types.TELEMETRY_AGGREGATED: TelemetryAggregated,
    event_types.SESSION_CREATED: SessionCreated,
    event_types.WEIGHT_RECORDED: WeightRecorded,
    event_types.IMAGE_CAPTURED: ImageCaptured,
    event_types.SESSION_FINALIZED: SessionFinalized,
    event_types.SESSION_CANCELLED: SessionCancelled,
    event_types.MEDIA_STORED: MediaStored,
    event_types.INFERENCE_COMPLETED: InferenceCompleted,
    event_types.SYNC_BATCH_SENT: SyncBatchSent,
    event_types.SYNC_BATCH_ACKED: SyncBatchAcked,
}


class MqttEnvelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every MQTT message from a device. A missing `trace_id` is made by the gateway."""

    # A factory, because `omit_defaults` would leave a plain default out of what we send.
    schema_version: str = msgspec.field(default_factory=lambda: SCHEMA_VERSION)
    event_id: UUID
    trace_id: TraceId | None = None
    tenant_id: Id
    device_id: DeviceId
    event_type: EventType
    ts: Timestamp
    content_hash: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    retry_count: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    produced_at: Timestamp | None = None
    payload: Raw

    def __post_init__(self) -> None:
        refuse_schema_version(self.schema_version)
        _require_object(self.payload)
        keep_utc(self, "ts", "produced_at")


class BusEnvelope(Struct, frozen=True, kw_only=True):
    """Every event on its way from the edge to the cloud and on the bus. `(tenant_id, event_id)` is unique for ever."""

    event_id: UUID
    event_type: EventType
    tenant_id: Id
    farm_id: Id | None = None
    barn_id: Id | None = None
    device_id: DeviceId | None = None
    session_id: UUID | None = None
    occurred_at: Timestamp
    trace_id: TraceId | None = None
    payload: Raw

    def __post_init__(self) -> None:
        _require_object(self.payload)
        keep_utc(self, "occurred_at")


def bus_envelope(
    payload: BusPayload,
    *,
    event_id: UUID,
    event_type: str,
    tenant_id: str,
    occurred_at: datetime,
    farm_id: str | None = None,
    barn_id: str | None = None,
    device_id: str | None = None,
    session_id: UUID | None = None,
    trace_id: str | None = None,
) -> BusEnvelope:
    _require_kind(BUS_PAYLOADS, event_type, payload)
    return BusEnvelope(
        event_id=event_id,
        event_type=event_type,
        tenant_id=tenant_id,
        farm_id=farm_id,
        barn_id=barn_id,
        device_id=device_id,
        session_id=session_id,
        occurred_at=occurred_at,
        trace_id=trace_id,
        payload=Raw(encode(payload)),
    )


def mqtt_envelope(
    payload: DevicePayload,
    *,
    event_id: UUID,
    event_type: str,
    tenant_id: str,
    device_id: str,
    ts: datetime,
    trace_id: str | None = None,
    produced_at: datetime | None = None,
) -> MqttEnvelope:
    _require_kind(DEVICE_PAYLOADS, event_type, payload)
    return MqttEnvelope(
        event_id=event_id,
        trace_id=trace_id,
        tenant_id=tenant_id,
        device_id=device_id,
        event_type=event_type,
        ts=ts,
        produced_at=produced_at,
        payload=Raw(encode(payload)),
    )


@overload
def payload_of(envelope: MqttEnvelope) -> DevicePayload: ...
@overload
def payload_of(envelope: BusEnvelope) -> BusPayload: ...
def payload_of(envelope: MqttEnvelope | BusEnvelope) -> DevicePayload | BusPayload:
    """The typed payload. An envelope that came through `decode` has had its payload's bytes checked already."""
    kind: type[DevicePayload] | type[BusPayload] | None
    if isinstance(envelope, MqttEnvelope):
        kind = DEVICE_PAYLOADS.get(envelope.event_type)
    else:
        kind = BUS_PAYLOADS.get(envelope.event_type)
    if kind is None:
        raise MalformedMessage("unknown_event_type", f"event_type {envelope.event_type!r} is not known here")
    try:
        return parse(kind, envelope.payload)
    except MalformedMessage as refusal:
        raise MalformedMessage(refusal.code, f"payload of {envelope.event_type}: {refusal.detail}") from refusal


_PER_DELIVERY: Final = frozenset({"lane", "trace_id", "produced_at", "retry_count"})
"""Members of a payload that describe one delivery of the event and not the event."""
_TIME_OF_WORK: Final = frozenset({event_types.MEDIA_STORED, event_types.INFERENCE_COMPLETED})
"""Events whose time is that of the edge's own work. An edge restored from a backup does that work again, later."""
_DERIVED: Final = {
    event_types.SESSION_CREATED: frozenset({"initial_weight_kg"}),
    event_types.TELEMETRY_BATCH_INGESTED: frozenset({"time_correction"}),
}
"""Members that follow from other events too: a station that says again that a session began may find its first weight known, and
a node that sends samples again may know better by then how wrong its clock was."""


def content_digest(envelope: BusEnvelope) -> bytes:
    """16 bytes over origin, type, time and payload: equal for the same event, whoever delivers it and however often.

    From the JSON values and not from the typed payload, so that a release which adds a member to a payload computes the same
    digest for an event that an earlier one has stored. The order of members, members that are null, and `_PER_DELIVERY` make no
    difference.
    """
    origin = (envelope.farm_id, envelope.barn_id, envelope.device_id, envelope.session_id)
    return digest_of(envelope.event_type, origin, envelope.occurred_at, envelope.payload)


def digest_of(event_type: str, origin: tuple[object, ...], occurred_at: datetime | None, payload: Raw) -> bytes:
    """As `content_digest`, of an event that is in no envelope yet."""
    members: Any = msgspec.json.decode(payload)
    if isinstance(members, dict):
        passed_over = _PER_DELIVERY | _DERIVED.get(event_type, frozenset())
        members = {name: value for name, value in members.items() if value is not None and name not in passed_over}
        if event_type == event_types.TELEMETRY_BATCH_INGESTED:
            members |= _channels_by_use(members)
    content = (event_type, origin, None if event_type in _TIME_OF_WORK else occurred_at, members)
    return blake2b(msgspec.json.encode(content, order="sorted"), digest_size=16).digest()


def _channels_by_use(pack: Mapping[str, Any]) -> dict[str, Any]:
    """The channels in the order of their first sample, without the unused ones: a node that sends the same samples again may cut
    its batches elsewhere and list other channels."""
    used = list(dict.fromkeys(pack["c"]))
    place = {channel: index for index, channel in enumerate(used)}
    return {"channels": [pack["channels"][channel] for channel in used], "c": [place[channel] for channel in pack["c"]]}


def _require_object(payload: Raw) -> None:
    if memoryview(payload)[:1].tobytes() != b"{":
        raise ValueError("Expected `object` - at `$.payload`")


def _require_kind(payloads: Mapping[str, type[Struct]], event_type: str, payload: Struct) -> None:
    if payloads.get(event_type) is not type(payload):
        raise TypeError(f"{event_type} does not carry a {type(payload).__name__}")

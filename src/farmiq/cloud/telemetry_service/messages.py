"""From a message on the bus to what it says. Decided from the message alone."""

import msgspec

from farmiq.cloud.telemetry_service.measurements import Measured, fits_a_bucket, measured
from farmiq.contracts import bus, event_types
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import BUS_PAYLOADS, BusEnvelope, payload_of
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.sync import SyncBatchAcked, SyncBatchSent
from farmiq.contracts.telemetry import (
    TelemetryAggregated,
    TelemetryBatchIngested,
    TelemetryIngested,
    TelemetryLoss,
)
from farmiq.contracts.weighvision import (
    ImageCaptured,
    SessionCancelled,
    SessionCreated,
    SessionFinalized,
    WeightRecorded,
)
from farmiq.kit.amqp import Delivery

SessionPayload = SessionCreated | SessionFinalized | SessionCancelled
WeighingPayload = SessionPayload | WeightRecorded | ImageCaptured | InferenceCompleted
SyncPayload = SyncBatchSent | SyncBatchAcked


class Weighing(msgspec.Struct, frozen=True):
    """Something that happened at a weigh station."""

    envelope: BusEnvelope
    payload: WeighingPayload


class SyncReport(msgspec.Struct, frozen=True):
    """What an edge says about its own sending."""

    envelope: BusEnvelope
    payload: SyncPayload


class OtherEvent(msgspec.Struct, frozen=True):
    """An event that has no table of its own: kept as it came."""

    envelope: BusEnvelope
    edge_cluster_id: str | None


Said = Measured | Weighing | SyncReport | OtherEvent


def has_nothing_to_store(delivery: Delivery) -> bool:
    """A sample whose pack comes here too, or an aggregate that was made here."""
    is_sample_of_pack = bus.EXPANDED_HEADER in delivery.headers
    is_own = delivery.routing_key == event_types.TELEMETRY_AGGREGATED and bus.EDGE_HEADER not in delivery.headers
    return is_sample_of_pack or is_own


def said(delivery: Delivery) -> Said:
    """What a message says, or `MalformedMessage`."""
    envelope = decode(BusEnvelope, delivery.body, max_bytes=BUS_MESSAGE_BYTES_MAX)
    if envelope.event_type not in BUS_PAYLOADS:
        return _other(envelope, delivery)
    payload = payload_of(envelope)
    if isinstance(payload, TelemetryAggregated) and not fits_a_bucket(payload):
        return _other(envelope, delivery)
    if isinstance(payload, TelemetryBatchIngested | TelemetryIngested | TelemetryLoss | TelemetryAggregated):
        return measured(envelope, payload)
    if isinstance(payload, SyncPayload):
        return SyncReport(envelope, payload)
    if isinstance(payload, WeighingPayload):
        return _weighing(envelope, payload)
    return _other(envelope, delivery)


def _weighing(envelope: BusEnvelope, payload: WeighingPayload) -> Weighing:
    if envelope.session_id is None and isinstance(payload, SessionPayload):
        raise MalformedMessage("schema", f"{envelope.event_type} needs a session_id")
    return Weighing(envelope, payload)


def _other(envelope: BusEnvelope, delivery: Delivery) -> OtherEvent:
    edge_cluster_id = delivery.headers.get(bus.EDGE_HEADER)
    return OtherEvent(envelope, edge_cluster_id if isinstance(edge_cluster_id, str) else None)

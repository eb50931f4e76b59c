"""From a message on the bus to what it measured. Decided from its bytes alone."""

from uuid import UUID

import msgspec

from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import BusEnvelope, payload_of
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.telemetry import TelemetryBatchIngested, TelemetryIngested, TelemetryLoss
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin


class DeclaredLoss(msgspec.Struct, frozen=True):
    origin: Origin
    event_id: UUID
    loss: TelemetryLoss


Measured = StreamBatch | SingleReading | DeclaredLoss


def measured(body: bytes) -> Measured:
    """What a message holds, or `MalformedMessage`."""
    envelope = decode(BusEnvelope, body, max_bytes=BUS_MESSAGE_BYTES_MAX)
    origin = _origin(envelope)
    match payload_of(envelope):
        case TelemetryBatchIngested() as pack:
            return StreamBatch(origin, pack)
        case TelemetryIngested() as one:
            return SingleReading(
                origin, envelope.event_id, envelope.occurred_at, one.metric_type, one.metric_value, one.unit
            )
        case TelemetryLoss() as loss:
            return DeclaredLoss(origin, envelope.event_id, loss)
    raise MalformedMessage("unknown_event_type", f"{envelope.event_type} is not stored here")


def _origin(envelope: BusEnvelope) -> Origin:
    if envelope.farm_id is None or envelope.barn_id is None or envelope.device_id is None:
        raise MalformedMessage("schema", "telemetry needs farm_id, barn_id and device_id")
    return Origin(envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id)

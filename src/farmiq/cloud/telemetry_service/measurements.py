"""What a message about telemetry measured. Decided from its content alone."""

from uuid import UUID

import msgspec

from farmiq.contracts.decoding import MalformedMessage
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.telemetry import TelemetryAggregated, TelemetryBatchIngested, TelemetryIngested, TelemetryLoss
from farmiq.contracts.timestamps import to_us
from farmiq.timeseries.rollup import WINDOW_MICROSECONDS, Bucket, Tally
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.stream import Origin


class DeclaredLoss(msgspec.Struct, frozen=True):
    origin: Origin
    event_id: UUID
    loss: TelemetryLoss


class EdgeAggregate(msgspec.Struct, frozen=True):
    """What an edge counted in one bucket."""

    origin: Origin
    bucket: Bucket
    tally: Tally


Measured = StreamBatch | SingleReading | DeclaredLoss | EdgeAggregate
MeasuredPayload = TelemetryBatchIngested | TelemetryIngested | TelemetryLoss | TelemetryAggregated


def fits_a_bucket(one: TelemetryAggregated) -> bool:
    """The document's form without a count can't be merged with anything, and is kept as the event that it is."""
    return one.count is not None and one.sum_value is not None and one.bucket_start_at is not None


def measured(envelope: BusEnvelope, payload: MeasuredPayload) -> Measured:
    """What a message holds, or `MalformedMessage`."""
    origin = _origin(envelope)
    match payload:
        case TelemetryBatchIngested() as pack:
            return StreamBatch(origin, pack)
        case TelemetryIngested() as one:
            return SingleReading(
                origin, envelope.event_id, envelope.occurred_at, one.metric_type, one.metric_value, one.unit
            )
        case TelemetryLoss() as loss:
            return DeclaredLoss(origin, envelope.event_id, loss)
        case TelemetryAggregated() as aggregate:
            return _aggregate(origin, aggregate)


def _aggregate(origin: Origin, one: TelemetryAggregated) -> EdgeAggregate:
    if one.bucket_start_at is None or one.sum_value is None or not one.count:
        raise MalformedMessage("schema", "an aggregate needs bucket_start_at, sum_value and a count above 0")
    start_us, width_us = to_us(one.bucket_start_at), WINDOW_MICROSECONDS.get(one.aggregation_window)
    if width_us is None or start_us % width_us:
        raise MalformedMessage("schema", f"no window {one.aggregation_window} begins at {one.bucket_start_at}")
    bucket = Bucket(origin, one.metric_type, one.sensor or "", one.unit, one.aggregation_window, start_us)
    return EdgeAggregate(origin, bucket, Tally(one.count, one.sum_value, one.min_value, one.max_value))


def _origin(envelope: BusEnvelope) -> Origin:
    if envelope.farm_id is None or envelope.barn_id is None or envelope.device_id is None:
        raise MalformedMessage("schema", "telemetry needs farm_id, barn_id and device_id")
    return Origin(envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id)

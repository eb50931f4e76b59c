"""Events as analytics gets them from the bus."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid4

from farmiq.contracts import bus, event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusPayload, bus_envelope
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.telemetry import Channel, TelemetryAggregated, TelemetryBatchIngested, TelemetryLoss
from farmiq.contracts.timestamps import to_us
from farmiq.contracts.weighvision import SessionCancelled, SessionCreated, SessionFinalized, WeightRecorded
from farmiq.kit.amqp import Delivery
from farmiq.timeseries.stream import Origin
from support.telemetry import HERE

SCALE = Origin("demo", "farm-1", "barn-1", "scale-1")


def event(
    event_type: str, payload: BusPayload, at: datetime, origin: Origin = HERE, session_id: UUID | None = None
) -> Delivery:
    envelope = bus_envelope(
        payload,
        event_id=uuid4(),
        event_type=event_type,
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        session_id=session_id,
        occurred_at=at,
        trace_id="trace-1",
    )
    return message(event_type, encode(envelope))


def message(event_type: str, body: bytes) -> Delivery:
    exchange = bus.exchange_for(event_type)
    return Delivery(body, exchange, event_type, None, {}, is_redelivered=False, tag=1, connection=1)


def hour(
    at: datetime, mean: float, *, metric: str = "temperature", sensor: str = "t1", unit: str = "C", revision: int = 121,
    origin: Origin = HERE, half_width: float = 0.5,
) -> Delivery:  # fmt: skip
    payload = TelemetryAggregated(
        metric_type=metric,
        aggregation_window="1h",
        avg_value=mean,
        min_value=mean - half_width,
        max_value=mean + half_width,
        unit=unit,
        count=revision // 2,
        bucket_start_at=at,
        sensor=sensor or None,
        revision=revision,
    )
    return event(event_types.TELEMETRY_AGGREGATED, payload, at, origin)


def pack(times: Sequence[datetime], values: Sequence[float], origin: Origin = HERE) -> Delivery:
    """Two channels in turn."""
    payload = TelemetryBatchIngested(
        stream_id=uuid4(),
        boot_id=uuid4(),
        lane="live",
        seq0=1,
        time_quality=2,
        channels=[Channel(metric="temperature", unit="C", sensor="t1"), Channel(metric="humidity", unit="%")],
        t=[to_us(at) for at in times],
        c=[index % 2 for index in range(len(times))],
        v=list(values),
    )
    return event(event_types.TELEMETRY_BATCH_INGESTED, payload, times[0], origin)


def loss(first_at: datetime, last_at: datetime, samples: int, origin: Origin = HERE) -> Delivery:
    payload = TelemetryLoss(
        stream_id=uuid4(),
        first_seq=1,
        last_seq=samples,
        count=samples,
        reason="spool_cap",
        dropped_at=last_at,
        first_ts=first_at,
        last_ts=last_at,
    )
    return event(event_types.TELEMETRY_LOSS, payload, last_at, origin)


def created(session_id: UUID, at: datetime, batch: str | None = "b1", initial: float | None = None) -> Delivery:
    payload = SessionCreated(status="created", batch_id=batch, initial_weight_kg=initial)
    return event(event_types.SESSION_CREATED, payload, at, SCALE, session_id)


def finalized(
    session_id: UUID,
    at: datetime,
    weight: float | None,
    result_id: UUID | None = None,
    origin: Origin = SCALE,
    revision: int = 1,
) -> Delivery:
    payload = SessionFinalized(
        status="finalized", image_count=1, final_weight_kg=weight, inference_result_id=result_id, revision=revision
    )
    return event(event_types.SESSION_FINALIZED, payload, at, origin, session_id)


def cancelled(session_id: UUID, at: datetime, revision: int = 1) -> Delivery:
    payload = SessionCancelled(status="cancelled", revision=revision)
    return event(event_types.SESSION_CANCELLED, payload, at, SCALE, session_id)


def weight(session_id: UUID, at: datetime, kilograms: float) -> Delivery:
    return event(event_types.WEIGHT_RECORDED, WeightRecorded(weight_kg=kilograms), at, SCALE, session_id)


def seen(
    session_id: UUID, at: datetime, kilograms: float, confidence: float = 0.9, result: UUID | None = None
) -> Delivery:
    payload = InferenceCompleted(
        inference_result_id=result or uuid4(),
        predicted_weight_kg=kilograms,
        confidence=confidence,
        model_version="weighvision-v1.2.0",
    )
    return event(event_types.INFERENCE_COMPLETED, payload, at, SCALE, session_id)

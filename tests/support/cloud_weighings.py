"""Events of weigh sessions, as the bus carries them."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from farmiq.contracts import event_types
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BUS_PAYLOADS, BusEnvelope, BusPayload, bus_envelope
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.sync import SyncBatchAcked, SyncBatchSent
from farmiq.contracts.weighvision import (
    ImageCaptured,
    SessionCancelled,
    SessionCreated,
    SessionFinalized,
    WeightRecorded,
)
from farmiq.timeseries.stream import Origin
from support.telemetry import HERE, NOW

_TYPES: dict[type[Any], str] = {kind: event_type for event_type, kind in BUS_PAYLOADS.items()}


def number(value: int) -> UUID:
    """An id that a person can read in a failure."""
    return UUID(int=(7 << 76) | (2 << 62) | value)


def told(
    payload: BusPayload,
    event: int,
    *,
    seconds: float = 0.0,
    session: int | None = None,
    origin: Origin = HERE,
    trace_id: str | None = "trace-1",
) -> BusEnvelope:
    return bus_envelope(
        payload,
        event_id=number(event),
        event_type=_TYPES[type(payload)],
        tenant_id=origin.tenant_id,
        farm_id=origin.farm_id,
        barn_id=origin.barn_id,
        device_id=origin.device_id,
        session_id=None if session is None else number(session),
        occurred_at=NOW + timedelta(seconds=seconds),
        trace_id=trace_id,
    )


def created(batch_id: str | None = "batch-1", initial_weight_kg: float | None = 120.5) -> SessionCreated:
    return SessionCreated(status="created", batch_id=batch_id, initial_weight_kg=initial_weight_kg)


def finalized(
    image_count: int = 2,
    final_weight_kg: float | None = 121.0,
    revision: int = 1,
    initial_weight_kg: float | None = None,
) -> SessionFinalized:
    return SessionFinalized(
        status="finalized",
        image_count=image_count,
        final_weight_kg=final_weight_kg,
        revision=revision,
        initial_weight_kg=initial_weight_kg,
    )


def cancelled(revision: int = 1, reason: str | None = "left") -> SessionCancelled:
    return SessionCancelled(status="cancelled", reason=reason, revision=revision)


def inferred(result: int, predicted_weight_kg: float = 121.3) -> InferenceCompleted:
    return InferenceCompleted(
        inference_result_id=number(result), predicted_weight_kg=predicted_weight_kg, confidence=0.9, model_version="v1"
    )


def a_session(session: int, *, origin: Origin = HERE, weights: int = 2, images: int = 2) -> list[BusEnvelope]:
    """Everything that a complete session says, with ids that follow from its own."""
    ids = iter(range(session * 1000, session * 1000 + 999))
    payloads: list[BusPayload] = [
        created(),
        *(WeightRecorded(weight_kg=120.0 + at) for at in range(weights)),
        *(ImageCaptured(media_id=number(session * 1000 + 500 + at), content_type="image/jpeg") for at in range(images)),
        inferred(session * 1000 + 900),
        finalized(images),
    ]
    return [
        told(payload, next(ids), seconds=float(at), session=session, origin=origin)
        for at, payload in enumerate(payloads)
    ]


def sent(batch_id: str, event: int, seconds: float = 0.0) -> BusEnvelope:
    return told(SyncBatchSent(batch_id=batch_id, event_count=500, edge_cluster_id="edge-1"), event, seconds=seconds)


def acked(batch_id: str, event: int, seconds: float = 0.0) -> BusEnvelope:
    return told(SyncBatchAcked(batch_id=batch_id, event_count=499, status="acked"), event, seconds=seconds)


def other(event: int, *, event_type: str = "door.opened", seconds: float = 0.0, tenant_id: str = "demo") -> bytes:
    """An event of a type that has no table of its own."""
    body = encode(told(WeightRecorded(weight_kg=1.0), event, seconds=seconds))
    return body.replace(event_types.WEIGHT_RECORDED.encode(), event_type.encode()).replace(
        b'"demo"', f'"{tenant_id}"'.encode()
    )

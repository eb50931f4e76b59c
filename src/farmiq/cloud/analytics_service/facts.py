"""From a message on the bus to the facts in it that analytics keeps. Decided from the message alone."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
import numpy as np

from farmiq.contracts import bus, event_types
from farmiq.contracts.decoding import MalformedMessage, decode
from farmiq.contracts.envelope import BusEnvelope, payload_of
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX
from farmiq.contracts.telemetry import TelemetryAggregated, TelemetryBatchIngested, TelemetryIngested, TelemetryLoss
from farmiq.contracts.timestamps import from_us
from farmiq.contracts.weighvision import SessionCancelled, SessionCreated, SessionFinalized, WeightRecorded
from farmiq.timeseries.stream import Origin

HOUR: Final = "1h"
AHEAD_MAX: Final = timedelta(days=1)
"""A clock further ahead than this is wrong. Believed, its series would count as heard for years to come."""

WANTED: Final = frozenset(
    {
        event_types.TELEMETRY_INGESTED,
        event_types.TELEMETRY_BATCH_INGESTED,
        event_types.TELEMETRY_AGGREGATED,
        event_types.TELEMETRY_LOSS,
        event_types.SESSION_CREATED,
        event_types.SESSION_FINALIZED,
        event_types.SESSION_CANCELLED,
        event_types.WEIGHT_RECORDED,
        event_types.INFERENCE_COMPLETED,
    }
)


class HourFact(msgspec.Struct, frozen=True):
    """One hour of one series, as the owner of the measurements tells it."""

    origin: Origin
    metric: str
    sensor: str
    unit: str
    hour_at: datetime
    revision: int
    count: int
    mean: float
    low: float
    high: float
    event_id: UUID


class HeardFact(msgspec.Struct, frozen=True):
    origin: Origin
    metric: str
    sensor: str
    unit: str
    at: datetime
    value: float


class HeardFacts(msgspec.Struct, frozen=True):
    """The newest sample of each channel of one message. None of them when all are from a clock that is wrong."""

    heard: tuple[HeardFact, ...]


class LossFact(msgspec.Struct, frozen=True):
    origin: Origin
    event_id: UUID
    first_at: datetime
    last_at: datetime
    samples: int
    reason: str


class CreatedFact(msgspec.Struct, frozen=True):
    origin: Origin
    session_id: UUID
    event_id: UUID
    at: datetime
    batch_id: str | None
    initial_kg: float | None


class EndedFact(msgspec.Struct, frozen=True):
    """How a session ended. It may be told again: the highest revision is right."""

    origin: Origin
    session_id: UUID
    event_id: UUID
    at: datetime
    revision: int
    final_kg: float | None = None
    inference_result_id: UUID | None = None
    is_cancelled: bool = False


class WeightFact(msgspec.Struct, frozen=True):
    origin: Origin
    session_id: UUID
    event_id: UUID
    at: datetime
    weight_kg: float


class InferenceFact(msgspec.Struct, frozen=True):
    origin: Origin
    session_id: UUID
    event_id: UUID
    at: datetime
    result_id: UUID
    predicted_kg: float
    confidence: float
    model_version: str


SessionFact = CreatedFact | EndedFact | WeightFact | InferenceFact
Fact = HourFact | HeardFacts | LossFact | SessionFact


def fact_of(routing_key: str, headers: Mapping[str, object], body: bytes, received_at: datetime) -> Fact | None:
    """What a message tells, None when it tells nothing that is kept here, or `MalformedMessage`."""
    if routing_key not in WANTED or bus.EXPANDED_HEADER in headers:
        return None  # of another kind, or a sample whose pack comes here too
    envelope = decode(BusEnvelope, body, max_bytes=BUS_MESSAGE_BYTES_MAX)
    if envelope.event_type not in WANTED:
        raise MalformedMessage("schema", f"event_type {envelope.event_type} came under routing key {routing_key}")
    return _told(envelope, received_at)


def _told(envelope: BusEnvelope, received_at: datetime) -> Fact | None:
    origin = _origin(envelope)
    match payload_of(envelope):
        case TelemetryBatchIngested() as pack:
            return HeardFacts(_newest(origin, pack, received_at))
        case TelemetryIngested() as one:
            is_wrong = envelope.occurred_at > received_at + AHEAD_MAX
            heard = HeardFact(origin, one.metric_type, "", one.unit, envelope.occurred_at, one.metric_value)
            return HeardFacts(() if is_wrong else (heard,))
        case TelemetryAggregated() as aggregate:
            return _hour(origin, envelope, aggregate)
        case TelemetryLoss() as loss:
            first_at = loss.first_ts or loss.last_ts or loss.dropped_at
            last_at = max(first_at, loss.last_ts or first_at)
            return LossFact(origin, envelope.event_id, first_at, last_at, loss.count, loss.reason)
        case told:
            return _of_session(origin, envelope, told)


def _of_session(origin: Origin, envelope: BusEnvelope, told: object) -> SessionFact | None:
    if isinstance(told, InferenceCompleted) and envelope.session_id is None:
        return None  # about a picture that belongs to no session
    session_id, event_id, at = _session(envelope), envelope.event_id, envelope.occurred_at
    match told:
        case SessionCreated():
            return CreatedFact(origin, session_id, event_id, at, told.batch_id, told.initial_weight_kg)
        case SessionFinalized():
            return EndedFact(
                origin, session_id, event_id, at, told.revision, told.final_weight_kg, told.inference_result_id
            )
        case SessionCancelled():
            return EndedFact(origin, session_id, event_id, at, told.revision, is_cancelled=True)
        case WeightRecorded():
            return WeightFact(origin, session_id, event_id, at, told.weight_kg)
        case InferenceCompleted():
            return InferenceFact(
                origin,
                session_id,
                event_id,
                at,
                told.inference_result_id,
                told.predicted_weight_kg,
                told.confidence,
                told.model_version,
            )
    raise MalformedMessage("unknown_event_type", f"{envelope.event_type} is not kept here")


def _newest(origin: Origin, pack: TelemetryBatchIngested, received_at: datetime) -> tuple[HeardFact, ...]:
    """The last sample of each channel: of the largest time and, where two have the same, of the larger value."""
    times = pack.occurred_us
    channel, at_us, value = np.array(pack.c), np.array(times), np.array(pack.v)
    order = np.lexsort((value, at_us, channel))
    is_last = np.append(np.diff(channel[order]) != 0, True)
    heard = []
    for index in order[is_last].tolist():
        at, named = from_us(times[index]), pack.channels[pack.c[index]]
        if at <= received_at + AHEAD_MAX:
            heard.append(HeardFact(origin, named.metric, named.sensor or "", named.unit, at, pack.v[index]))
    return tuple(heard)


def _hour(origin: Origin, envelope: BusEnvelope, one: TelemetryAggregated) -> HourFact | None:
    if one.aggregation_window != HOUR:
        return None
    start_at = one.bucket_start_at or envelope.occurred_at
    hour_at = start_at.replace(minute=0, second=0, microsecond=0)
    if one.bucket_start_at is not None and hour_at != start_at:
        raise MalformedMessage("schema", f"no window 1h begins at {start_at}")
    return HourFact(
        origin,
        one.metric_type,
        one.sensor or "",
        one.unit,
        hour_at,
        one.revision or 0,
        one.count or 0,
        one.avg_value,
        one.min_value,
        one.max_value,
        envelope.event_id,
    )


def _origin(envelope: BusEnvelope) -> Origin:
    if envelope.farm_id is None or envelope.barn_id is None:
        raise MalformedMessage("schema", f"{envelope.event_type} needs farm_id and barn_id")
    if envelope.device_id is None and envelope.event_type.startswith("telemetry."):
        raise MalformedMessage("schema", f"{envelope.event_type} needs device_id")
    return Origin(envelope.tenant_id, envelope.farm_id, envelope.barn_id, envelope.device_id or "")


def _session(envelope: BusEnvelope) -> UUID:
    if envelope.session_id is None:
        raise MalformedMessage("schema", f"{envelope.event_type} needs session_id")
    return envelope.session_id

"""Every statement that writes sessions, weights, pictures that were taken, and inference results."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Final, TypeVar
from uuid import UUID

from farmiq.cloud.telemetry_service.keyed_rows import Row, one_per_key, write_rows
from farmiq.cloud.telemetry_service.messages import Weighing
from farmiq.cloud.telemetry_service.sessions import Key, Session, by_session
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.inference import InferenceCompleted
from farmiq.contracts.weighvision import ImageCaptured, WeightRecorded
from farmiq.kit.postgres import Connection

_COLUMNS: Final = tuple(name for name in Session.__struct_fields__ if name != "is_cancelled")
_MAKE_SESSIONS: Final = """
    INSERT INTO weight_sessions (tenant_id, id, first_event_at)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::timestamptz[])
    ON CONFLICT (tenant_id, id) DO NOTHING
"""
_LOCK_SESSIONS: Final = f"""
    SELECT tenant_id, id, status = 'cancelled' AS is_cancelled, {", ".join(_COLUMNS)} FROM weight_sessions
     WHERE (tenant_id, id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
     ORDER BY tenant_id, id FOR UPDATE
"""  # noqa: S608 - our own constants
_SAVE_SESSIONS: Final = f"""
    UPDATE weight_sessions AS known
       SET status = given.status, initial_weight_kg = given.initial_weight_kg, updated_at = now(),
           {", ".join(f"{name} = given.{name}" for name in _COLUMNS)}
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::float8[], $5::timestamptz[], $6::text[], $7::text[], $8::text[],
                  $9::uuid[], $10::timestamptz[], $11::text[], $12::float8[], $13::text[], $14::uuid[], $15::int[],
                  $16::timestamptz[], $17::text[], $18::float8[], $19::float8[], $20::int[], $21::uuid[])
           AS given (tenant_id, id, status, initial_weight_kg, {", ".join(_COLUMNS)})
     WHERE known.tenant_id = given.tenant_id AND known.id = given.id
"""  # noqa: S608 - as above
_WEIGHTS: Final = """
    INSERT INTO recorded_weights
           (tenant_id, event_id, farm_id, barn_id, device_id, session_id, occurred_at, trace_id, received_at, weight_kg)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::timestamptz[], $8::text[],
                         $9::timestamptz[], $10::float8[])
    ON CONFLICT (tenant_id, event_id) DO NOTHING
"""
# Two events may tell of one picture or one result. The one that names a session counts, then the first: in whatever order
# they come, the same one stays.
_STAYS: Final = """
       SET {columns}
     WHERE (excluded.session_id IS NULL, excluded.occurred_at, excluded.event_id)
         < (known.session_id IS NULL, known.occurred_at, known.event_id)
"""
_IMAGE_COLUMNS: Final = (
    "event_id", "farm_id", "barn_id", "device_id", "session_id", "occurred_at", "trace_id", "received_at",
    "content_type", "size_bytes", "sha256",
)  # fmt: skip
_IMAGES: Final = f"""
    INSERT INTO captured_images AS known (tenant_id, media_id, {", ".join(_IMAGE_COLUMNS)})
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[],
                         $9::text[], $10::timestamptz[], $11::text[], $12::bigint[], $13::text[])
    ON CONFLICT (tenant_id, media_id) DO UPDATE
    {_STAYS.format(columns=", ".join(f"{name} = excluded.{name}" for name in _IMAGE_COLUMNS))}
"""  # noqa: S608 - as above
_RESULT_COLUMNS: Final = (
    "event_id", "farm_id", "barn_id", "device_id", "session_id", "occurred_at", "trace_id", "created_at",
    "media_id", "predicted_weight_kg", "predicted_size", "confidence", "model_version",
)  # fmt: skip
_RESULTS: Final = f"""
    INSERT INTO inference_results AS known (tenant_id, id, {", ".join(_RESULT_COLUMNS)})
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::uuid[], $8::timestamptz[],
                         $9::text[], $10::timestamptz[], $11::uuid[], $12::float8[], $13::text[], $14::float8[], $15::text[])
    ON CONFLICT (tenant_id, id) DO UPDATE
    {_STAYS.format(columns=", ".join(f"{name} = excluded.{name}" for name in _RESULT_COLUMNS))}
"""  # noqa: S608 - as above

T = TypeVar("T")


async def store_weighings(connection: Connection, weighings: Sequence[Weighing], received_at: datetime) -> None:
    await _add_to_sessions(connection, by_session(weighings))
    weights = _told_first(weighings, WeightRecorded, lambda envelope, _: envelope.event_id)
    images = _told_first(weighings, ImageCaptured, lambda _, payload: payload.media_id)
    results = _told_first(weighings, InferenceCompleted, lambda _, payload: payload.inference_result_id)
    await write_rows(connection, _WEIGHTS, [_weight_row(*one, received_at) for one in weights])
    await write_rows(connection, _IMAGES, [_image_row(*one, received_at) for one in images])
    await write_rows(connection, _RESULTS, [_result_row(*one, received_at) for one in results])


async def _add_to_sessions(connection: Connection, events: Mapping[Key, Sequence[Weighing]]) -> None:
    if not events:
        return
    tenant_ids, session_ids = [tenant_id for tenant_id, _ in events], [session_id for _, session_id in events]
    first_at = [min(one.envelope.occurred_at for one in found) for found in events.values()]
    await connection.execute(_MAKE_SESSIONS, tenant_ids, session_ids, first_at)
    changed: list[Row] = []
    for row in await connection.fetch(_LOCK_SESSIONS, tenant_ids, session_ids):
        key = (row["tenant_id"], row["id"])
        known = Session(is_cancelled=row["is_cancelled"], **{name: row[name] for name in _COLUMNS})
        session = copy(known)
        for weighing in events[key]:
            session.add(weighing)
        if session != known:
            values = [getattr(session, name) for name in _COLUMNS]
            changed.append((*key, session.status, session.initial_weight_kg, *values))
    await write_rows(connection, _SAVE_SESSIONS, changed)


def _told_first(
    weighings: Iterable[Weighing], kind: type[T], id_of: Callable[[BusEnvelope, T], UUID]
) -> list[tuple[BusEnvelope, T]]:
    """What is of this kind, each id once: see `_STAYS`."""
    told = [(one.envelope, one.payload) for one in weighings if isinstance(one.payload, kind)]
    return one_per_key(
        told,
        lambda one: (one[0].tenant_id, id_of(*one)),
        lambda one: (one[0].session_id is None, one[0].occurred_at, one[0].event_id),
    )


def _weight_row(envelope: BusEnvelope, payload: WeightRecorded, received_at: datetime) -> Row:
    return (envelope.tenant_id, *_told(envelope, received_at), payload.weight_kg)


def _image_row(envelope: BusEnvelope, payload: ImageCaptured, received_at: datetime) -> Row:
    about = (payload.content_type, payload.size_bytes, payload.sha256)
    return (envelope.tenant_id, payload.media_id, *_told(envelope, received_at), *about)


def _result_row(envelope: BusEnvelope, payload: InferenceCompleted, received_at: datetime) -> Row:
    about = (
        payload.media_id, payload.predicted_weight_kg, payload.predicted_size, payload.confidence, payload.model_version,
    )  # fmt: skip
    return (envelope.tenant_id, payload.inference_result_id, *_told(envelope, received_at), *about)


def _told(envelope: BusEnvelope, received_at: datetime) -> Row:
    return (
        envelope.event_id, envelope.farm_id, envelope.barn_id, envelope.device_id, envelope.session_id,
        envelope.occurred_at, envelope.trace_id, received_at,
    )  # fmt: skip

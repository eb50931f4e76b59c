"""Every SQL statement that changes a session, and those that it is read back with."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from farmiq.contracts.weighvision import WeightRecorded
from farmiq.edge.weighvision_session.ending import Told
from farmiq.edge.weighvision_session.events import InferenceResult, SessionEvent
from farmiq.edge.weighvision_session.kept import Kept, kept_of, picture_of
from farmiq.edge.weighvision_session.session import Picture, Session
from farmiq.kit.due_times import first_due
from farmiq.kit.postgres import Connection
from farmiq.timeseries.stream import Origin

# In the order of the ids, here and in the lock: transactions that name the same sessions must not wait for each other.
_OPEN = """
    INSERT INTO weight_sessions (id, tenant_id, farm_id, barn_id, device_id, station_id, trace_id, created_at, last_heard_at,
                                 look_at)
    SELECT id, tenant_id, farm_id, barn_id, device_id, device_id, trace_id, $7, $7, $7
      FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
           AS given (id, tenant_id, farm_id, barn_id, device_id, trace_id)
     ORDER BY tenant_id, id
    ON CONFLICT DO NOTHING
"""
_GIVEN = "IN (SELECT * FROM unnest($1::text[], $2::uuid[]))"
_LOCK = f"""
    SELECT id, tenant_id, farm_id, barn_id, device_id FROM weight_sessions WHERE (tenant_id, id) {_GIVEN}
     ORDER BY tenant_id, id FOR UPDATE
"""  # noqa: S608 - our own constants
_DUE_PLACES = first_due("weight_sessions", "look_at IS NOT NULL", "look_at", limit="$2", now="$1::timestamptz")
DUE = f"SELECT tenant_id, id FROM weight_sessions WHERE ctid = ANY ({_DUE_PLACES})"  # noqa: S608 - our own constants
# A statement of its own, after the lock: one that waits for a lock would still see what stood around the row before.
_READ = f"""
    SELECT session.*,
           first.occurred_at AS first_at, first.event_id AS first_event_id, first.weight_kg AS first_weight_kg,
           last.occurred_at AS last_at, last.event_id AS last_event_id, last.weight_kg AS last_weight_kg,
           best.id AS result_id, best.model_generation, best.confidence, best.occurred_at AS result_at
      FROM weight_sessions AS session
      LEFT JOIN LATERAL (SELECT * FROM session_weights AS weight
                          WHERE weight.tenant_id = session.tenant_id AND weight.session_id = session.id
                          ORDER BY occurred_at, event_id LIMIT 1) AS first ON true
      LEFT JOIN LATERAL (SELECT * FROM session_weights AS weight
                          WHERE weight.tenant_id = session.tenant_id AND weight.session_id = session.id
                          ORDER BY occurred_at DESC, event_id DESC LIMIT 1) AS last ON true
      LEFT JOIN LATERAL (
        SELECT * FROM (SELECT * FROM session_results AS result
                        WHERE result.tenant_id = session.tenant_id AND result.session_id = session.id
                       UNION ALL
                       SELECT result.* FROM session_pictures AS picture JOIN session_results AS result USING (tenant_id, media_id)
                        WHERE picture.tenant_id = session.tenant_id AND picture.session_id = session.id) AS result
         ORDER BY model_generation DESC, confidence DESC, occurred_at DESC, id DESC LIMIT 1) AS best ON true
     WHERE (session.tenant_id, session.id) {_GIVEN}
"""  # noqa: S608 - our own constants
_PICTURES = f"""
    SELECT tenant_id, session_id, media_id, announced_at, announced_event_id, stored_at,
           EXISTS (SELECT FROM session_results AS result
                    WHERE result.tenant_id = picture.tenant_id AND result.media_id = picture.media_id) AS has_result
      FROM session_pictures AS picture WHERE (tenant_id, session_id) {_GIVEN}
"""  # noqa: S608 - our own constants
_ADD_WEIGHTS = """
    INSERT INTO session_weights (tenant_id, session_id, event_id, occurred_at, weight_kg, received_at)
    SELECT *, $6 FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::float8[])
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, session_id
"""
# Row by row and in any order it ends the same: the first announcement and the first moment of being stored stay.
_ADD_PICTURE = """
    INSERT INTO session_pictures AS kept
           (tenant_id, session_id, media_id, announced_at, announced_event_id, stored_at, attached_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (tenant_id, session_id, media_id) DO UPDATE
       SET (announced_at, announced_event_id) =
             (SELECT at, event_id FROM (VALUES (kept.announced_at, kept.announced_event_id),
                                               (excluded.announced_at, excluded.announced_event_id)) AS word (at, event_id)
               ORDER BY at, event_id LIMIT 1),
           stored_at = least(kept.stored_at, excluded.stored_at),
           attached_at = least(kept.attached_at, excluded.attached_at)
"""
_LOSE_PICTURE = f"""
    UPDATE session_pictures SET stored_at = NULL WHERE (tenant_id, session_id) {_GIVEN} AND media_id = $3
"""  # noqa: S608 - our own constants
_IS_FULL = """
    SELECT count(*) >= $4 AND NOT bool_or(media_id = $3)
      FROM (SELECT media_id FROM session_pictures WHERE tenant_id = $1 AND session_id = $2) AS own
"""
_SAVE = """
    UPDATE weight_sessions
       SET status = $2, start_at = $3, created_event_id = $4, batch_id = $5, given_initial_weight_kg = $6,
           initial_weight_kg = $7, end_at = $8, ended_event_id = $9, ended_reason = $10, image_count = $11,
           given_final_weight_kg = $12, final_weight_kg = $13, ruled_id = $14, ruled_at = $15, ruled_reason = $16,
           ruled_image_count = $17, ruled_final_weight_kg = $18, inference_result_id = $19, ended_heard_at = $20,
           last_heard_at = $21, look_at = $22, updated_at = $23
     WHERE id = $1 AND tenant_id = $24
"""
_TOUCH = f"""
    UPDATE weight_sessions SET last_heard_at = greatest(last_heard_at, $3), look_at = $3, updated_at = $3
     WHERE (tenant_id, id) {_GIVEN}
"""  # noqa: S608 - our own constants
_SETTLE = """
    UPDATE weight_sessions
       SET incomplete_since = $2, look_at = $3, inference_result_id = $4, told_event_id = $5, told_digest = $6,
           told_revision = $7, updated_at = $8
     WHERE id = $1 AND tenant_id = $9
"""
_NAMING = """
    SELECT id FROM weight_sessions WHERE tenant_id = $1
       AND (id = $3 OR id IN (SELECT session_id FROM session_pictures WHERE tenant_id = $1 AND media_id = $2))
     ORDER BY id
"""
_ADD_RESULT = """
    INSERT INTO session_results (id, tenant_id, session_id, media_id, predicted_weight_kg, confidence, model_version,
                                 model_generation, occurred_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT DO NOTHING
    RETURNING id
"""
_ADD_OPERATION = """
    INSERT INTO session_operations (id, tenant_id, session_id, action, media_id, reason, trace_id, done_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""
_OWNERS = f"""
    SELECT id, tenant_id, farm_id, barn_id, device_id FROM weight_sessions WHERE (tenant_id, id) {_GIVEN}
"""  # noqa: S608 - our own constants
_UNFINISHED = """
    SELECT wanted.tenant_id, wanted.id FROM unnest($1::text[], $2::uuid[]) AS wanted (tenant_id, id)
     WHERE NOT EXISTS (SELECT FROM weight_sessions AS known
                        WHERE known.tenant_id = wanted.tenant_id AND known.id = wanted.id AND known.status <> 'created')
"""

Key = tuple[str, UUID]
"""A session is known by its tenant and its id: stations choose the ids."""


async def open_sessions(
    connection: Connection, given: Mapping[Key, tuple[Origin, str | None]], at: datetime
) -> dict[Key, Origin]:
    """Make those that are new, lock all of them, and answer whose each is. A session belongs to who spoke of it first."""
    keys = sorted(given)
    origins = [given[key][0] for key in keys]
    await connection.execute(
        _OPEN,
        [session_id for _, session_id in keys],
        [tenant_id for tenant_id, _ in keys],
        [origin.farm_id for origin in origins],
        [origin.barn_id for origin in origins],
        [origin.device_id for origin in origins],
        [given[key][1] for key in keys],
        at,
    )
    return await lock(connection, keys)


async def lock(connection: Connection, keys: Iterable[Key]) -> dict[Key, Origin]:
    return _whose(await connection.fetch(_LOCK, *_columns(keys)))


async def owners(connection: Connection, keys: Iterable[Key]) -> dict[Key, Origin]:
    return _whose(await connection.fetch(_OWNERS, *_columns(keys)))


async def lock_due(connection: Connection, now: datetime, limit: int) -> list[Key]:
    """Those that are to be looked at, except where somebody is writing just now: the next look finds them."""
    return [(row["tenant_id"], row["id"]) for row in await connection.fetch(DUE, now, limit)]


async def read(connection: Connection, keys: Sequence[Key]) -> list[Kept]:
    pictures: dict[Key, dict[UUID, Picture]] = {key: {} for key in keys}
    for row in await connection.fetch(_PICTURES, *_columns(keys)):
        pictures[row["tenant_id"], row["session_id"]][row["media_id"]] = picture_of(row)
    rows = await connection.fetch(_READ, *_columns(keys))
    return [kept_of(row, pictures[row["tenant_id"], row["id"]]) for row in rows]


async def add_weights(
    connection: Connection, weights: Sequence[tuple[SessionEvent, WeightRecorded]], at: datetime
) -> set[Key]:
    """Answers the sessions in which one was new."""
    if not weights:
        return set()
    rows = await connection.fetch(
        _ADD_WEIGHTS,
        [event.origin.tenant_id for event, _ in weights],
        [event.session_id for event, _ in weights],
        [event.event_id for event, _ in weights],
        [event.at for event, _ in weights],
        [weight.weight_kg for _, weight in weights],
        at,
    )
    return {(row["tenant_id"], row["session_id"]) for row in rows}


async def add_picture(
    connection: Connection, key: Key, media_id: UUID, picture: Picture, attached_at: datetime | None = None
) -> None:
    """Doing it again, or in another order, changes nothing."""
    announced = picture.announced
    await connection.execute(
        _ADD_PICTURE,
        *key,
        media_id,
        None if announced is None else announced.at,
        None if announced is None else announced.event_id,
        picture.stored_at,
        attached_at,
    )


async def lose_picture(connection: Connection, keys: Sequence[Key], media_id: UUID) -> None:
    await connection.execute(_LOSE_PICTURE, *_columns(keys), media_id)


async def is_full(connection: Connection, key: Key, media_id: UUID, pictures_max: int) -> bool:
    """There are so many pictures in it, and this is not one of them."""
    answer: bool = await connection.fetchval(_IS_FULL, *key, media_id, pictures_max)
    return answer


async def save(connection: Connection, kept: Kept, session: Session, at: datetime) -> None:
    """What is known now, to be looked at at once."""
    created, closing, ruling = session.created, session.closing, session.ruling
    has_new_end = session.ended is not None and session.ended != kept.session.ended
    await connection.execute(
        _SAVE,
        kept.id,
        session.status,
        created and created.at,
        created and created.event_id,
        created and created.batch_id,
        created and created.initial_weight_kg,
        session.initial_weight_kg,
        session.ended and session.ended.at,
        closing and closing.event_id,
        closing and closing.reason,
        session.image_count,
        closing and closing.final_weight_kg,
        session.final_weight_kg,
        ruling and ruling.event_id,
        ruling and ruling.at,
        ruling and ruling.reason,
        ruling and ruling.image_count,
        ruling and ruling.final_weight_kg,
        session.result and session.result.id,
        at if has_new_end else kept.heard.ended_at,
        max(at, kept.heard.last_at),
        at,
        at,
        kept.origin.tenant_id,
    )


async def touch(connection: Connection, keys: Sequence[Key], at: datetime) -> None:
    """Something around these sessions has changed: look at them."""
    if keys:
        await connection.execute(_TOUCH, *_columns(keys), at)


async def settle(
    connection: Connection,
    kept: Kept,
    incomplete_since: datetime | None,
    look_at: datetime | None,
    told: Told | None,
    at: datetime,
) -> None:
    result = kept.session.result
    await connection.execute(
        _SETTLE,
        kept.id,
        incomplete_since,
        look_at,
        result and result.id,
        told and told.event_id,
        told and told.digest,
        0 if told is None else told.revision,
        at,
        kept.origin.tenant_id,
    )


async def naming(
    connection: Connection, tenant_id: str, media_id: UUID | None, session_id: UUID | None = None
) -> list[Key]:
    """The sessions of this tenant that have this picture, and the one that is named itself."""
    return [(tenant_id, row["id"]) for row in await connection.fetch(_NAMING, tenant_id, media_id, session_id)]


async def add_result(connection: Connection, result: InferenceResult) -> bool:
    """Whether it is new."""
    added = await connection.fetchval(
        _ADD_RESULT,
        result.id,
        result.origin.tenant_id,
        result.session_id,
        result.media_id,
        result.predicted_weight_kg,
        result.confidence,
        result.model_version,
        result.model_generation,
        result.occurred_at,
    )
    return added is not None


async def add_operation(
    connection: Connection,
    operation_id: UUID,
    key: Key,
    action: str,
    at: datetime,
    *,
    media_id: UUID | None = None,
    reason: str | None = None,
    trace_id: str | None = None,
) -> None:
    await connection.execute(_ADD_OPERATION, operation_id, *key, action, media_id, reason, trace_id, at)


async def unfinished(connection: Connection, keys: Sequence[Key]) -> set[Key]:
    return {(row["tenant_id"], row["id"]) for row in await connection.fetch(_UNFINISHED, *_columns(keys))}


def _columns(keys: Iterable[Key]) -> tuple[list[str], list[UUID]]:
    given = list(keys)
    return [tenant_id for tenant_id, _ in given], [session_id for _, session_id in given]


def _whose(rows: Sequence[asyncpg.Record]) -> dict[Key, Origin]:
    return {
        (row["tenant_id"], row["id"]): Origin(row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"])
        for row in rows
    }

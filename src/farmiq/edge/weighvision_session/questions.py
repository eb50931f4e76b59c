"""Every SQL statement behind what people ask. The first of each question names the tenant."""

from datetime import datetime
from uuid import UUID

import asyncpg
import msgspec

from farmiq.contracts.timestamps import EARLIEST, LATEST
from farmiq.edge.weighvision_session import store
from farmiq.edge.weighvision_session.kept import Kept
from farmiq.kit.day_digests import IMAGE_CONTENT, SESSION_CONTENT, WEIGHT_CONTENT, Digested
from farmiq.kit.postgres import Connection

ROWS_MAX = 1000
"""Of the weights, results and operations of one session, newest first."""

_PAGE = """
    SELECT id, begun_at FROM weight_sessions
     WHERE tenant_id = $1 AND begun_at >= $2 AND begun_at < $3 AND (begun_at, id) < ($4, $5)
       AND ($6::text IS NULL OR device_id = $6) AND ($7::text IS NULL OR status = $7)
       AND (incomplete_since IS NOT NULL OR NOT $8) AND ($10::text IS NULL OR batch_id = $10)
     ORDER BY begun_at DESC, id DESC LIMIT $9
"""
_WEIGHTS = """
    SELECT event_id, occurred_at, weight_kg, received_at FROM session_weights
     WHERE tenant_id = $1 AND session_id = $2 ORDER BY occurred_at DESC, event_id DESC LIMIT $3
"""
_BINDINGS = """
    SELECT media_id, announced_at, attached_at, stored_at FROM session_pictures
     WHERE tenant_id = $1 AND session_id = $2 ORDER BY media_id
"""
_RESULTS = """
    SELECT id, media_id, predicted_weight_kg, confidence, model_version, occurred_at
      FROM (SELECT * FROM session_results WHERE tenant_id = $1 AND session_id = $2
            UNION
            SELECT result.* FROM session_pictures AS picture JOIN session_results AS result USING (tenant_id, media_id)
             WHERE picture.tenant_id = $1 AND picture.session_id = $2) AS result
     ORDER BY occurred_at DESC, id DESC LIMIT $3
"""
_OPERATIONS = """
    SELECT id, action, media_id, reason, done_at FROM session_operations
     WHERE tenant_id = $1 AND session_id = $2 ORDER BY done_at DESC, id DESC LIMIT $3
"""

RECORDED_WEIGHTS = Digested(
    """
    (SELECT weight.event_id AS id, session_id, tenant_id, session.device_id, weight.occurred_at, weight.weight_kg
       FROM session_weights AS weight
       JOIN (SELECT tenant_id, id AS session_id, device_id FROM weight_sessions) AS session USING (tenant_id, session_id))
       AS weights
    """,
    at="occurred_at",
    state="'recorded'",
    content=WEIGHT_CONTENT,
)
# One that a person gave to the session is told to the cloud as if the station had announced it then.
CAPTURED_IMAGES = Digested(
    """
    (SELECT picture.media_id AS id, session_id, tenant_id, session.device_id, coalesce(announced_at, attached_at) AS told_at
       FROM session_pictures AS picture
       JOIN (SELECT tenant_id, id AS session_id, device_id FROM weight_sessions) AS session USING (tenant_id, session_id)
      WHERE announced_at IS NOT NULL OR attached_at IS NOT NULL) AS images
    """,
    at="told_at",
    state="'captured'",
    content=IMAGE_CONTENT,
)
DIGESTED = Digested("weight_sessions", at="begun_at", state="status", content=SESSION_CONTENT)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions. By when they began; one whose beginning is unknown, by when it was first heard of."""

    tenant_id: str
    device_id: str | None = None
    batch_id: str | None = None
    status: str | None = None
    is_incomplete: bool = False
    since: datetime = EARLIEST
    until: datetime = LATEST


async def page(
    connection: Connection, wanted: Wanted, after: tuple[datetime, UUID] | None, limit: int
) -> list[tuple[datetime, Kept]]:
    """Newest first, from behind `after`, each with when it began."""
    at, after_id = after or (LATEST, UUID(int=2**128 - 1))
    rows = await connection.fetch(
        _PAGE,
        wanted.tenant_id,
        wanted.since,
        wanted.until,
        at,
        after_id,
        wanted.device_id,
        wanted.status,
        wanted.is_incomplete,
        limit,
        wanted.batch_id,
    )
    kept = {one.id: one for one in await store.read(connection, [(wanted.tenant_id, row["id"]) for row in rows])}
    return [(row["begun_at"], kept[row["id"]]) for row in rows if row["id"] in kept]


async def one(connection: Connection, tenant_id: str, session_id: UUID) -> Kept | None:
    found = await store.read(connection, [(tenant_id, session_id)])
    return found[0] if found else None


async def weights(connection: Connection, kept: Kept) -> list[asyncpg.Record]:
    return await connection.fetch(_WEIGHTS, *kept.key, ROWS_MAX)


async def bindings(connection: Connection, kept: Kept) -> list[asyncpg.Record]:
    return await connection.fetch(_BINDINGS, *kept.key)


async def results(connection: Connection, kept: Kept) -> list[asyncpg.Record]:
    return await connection.fetch(_RESULTS, *kept.key, ROWS_MAX)


async def operations(connection: Connection, kept: Kept) -> list[asyncpg.Record]:
    return await connection.fetch(_OPERATIONS, *kept.key, ROWS_MAX)

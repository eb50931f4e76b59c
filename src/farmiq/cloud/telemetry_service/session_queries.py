"""Questions about weigh sessions. Every one is of one tenant, and reads a number of rows that depends on the page."""

from datetime import datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

import msgspec

from farmiq.contracts.timestamps import Timestamp
from farmiq.kit.day_digests import IMAGE_CONTENT, RESULT_CONTENT, SESSION_CONTENT, WEIGHT_CONTENT, Digested
from farmiq.kit.postgres import Connection

Status = Literal["created", "finalized", "cancelled"]

_COLUMNS: Final = (
    "id", "farm_id", "barn_id", "device_id", "batch_id", "status", "start_at", "end_at", "initial_weight_kg", "final_weight_kg",
    "cancel_reason", "image_count", "inference_result_id", "first_event_at", "trace_id",
)  # fmt: skip
# What belongs to a session is counted for the rows of a page only.
_COUNTS: Final = """
    (SELECT count(*) FROM recorded_weights AS w WHERE w.tenant_id = s.tenant_id AND w.session_id = s.id) AS weights,
    (SELECT count(*) FROM captured_images AS i WHERE i.tenant_id = s.tenant_id AND i.session_id = s.id) AS images_announced,
    (SELECT count(*) FROM inference_results AS r WHERE r.tenant_id = s.tenant_id AND r.session_id = s.id) AS inferences
"""
_PAGE: Final = f"""
    SELECT {", ".join(_COLUMNS)}, {_COUNTS}
      FROM (SELECT * FROM weight_sessions
             WHERE tenant_id = $1 AND first_event_at >= $2 AND first_event_at <= $3 AND (first_event_at, id) < ($3, $4)
                   {{filters}}
             ORDER BY first_event_at DESC, id DESC
             LIMIT $5) AS s
     ORDER BY first_event_at DESC, id DESC
"""  # noqa: S608 - our own constants
_ONE: Final = f"SELECT {', '.join(_COLUMNS)}, {_COUNTS} FROM weight_sessions AS s WHERE tenant_id = $1 AND id = $2"  # noqa: S608 - as above
_STORED: Final = "SELECT created_at, updated_at FROM weight_sessions WHERE tenant_id = $1 AND id = $2"
_WEIGHTS: Final = """
    SELECT event_id, weight_kg, occurred_at FROM recorded_weights WHERE tenant_id = $1 AND session_id = $2
     ORDER BY occurred_at, event_id LIMIT $3
"""
_IMAGES: Final = """
    SELECT media_id, content_type, size_bytes, occurred_at FROM captured_images WHERE tenant_id = $1 AND session_id = $2
     ORDER BY occurred_at, media_id LIMIT $3
"""
_RESULTS: Final = """
    SELECT id AS inference_result_id, media_id, predicted_weight_kg, predicted_size, confidence, model_version, occurred_at
      FROM inference_results WHERE tenant_id = $1 AND session_id = $2 ORDER BY occurred_at, id LIMIT $3
"""

DIGESTED: Final = Digested("weight_sessions", at="first_event_at", state="status", content=SESSION_CONTENT)
RECORDED_WEIGHTS: Final = Digested(
    "(SELECT event_id AS id, * FROM recorded_weights WHERE session_id IS NOT NULL) AS weights",
    at="occurred_at",
    state="'recorded'",
    content=WEIGHT_CONTENT,
)
CAPTURED_IMAGES: Final = Digested(
    "(SELECT media_id AS id, * FROM captured_images WHERE session_id IS NOT NULL) AS images",
    at="occurred_at",
    state="'captured'",
    content=IMAGE_CONTENT,
)
RESULTS: Final = Digested("inference_results", at="occurred_at", state="model_version", content=RESULT_CONTENT)
SMALLEST_ID: Final = UUID(int=0)
PARTS_MAX: Final = 1000
"""Of each kind, in the answer about one session. A session has a handful."""


class AfterSession(NamedTuple):
    at: Timestamp
    id: UUID


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """`start_at` is null until the session's creation has come; `first_event_at` is the earliest of its events so far.

    `image_count` is how many pictures the session has, as its end said; `images_announced` of them the station told of.
    """

    id: UUID
    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    batch_id: str | None
    status: Status
    start_at: datetime | None
    end_at: datetime | None
    initial_weight_kg: float | None
    final_weight_kg: float | None
    cancel_reason: str | None
    image_count: int | None
    inference_result_id: UUID | None
    first_event_at: datetime
    trace_id: str | None
    weights: int
    images_announced: int
    inferences: int


class WeightRow(msgspec.Struct, frozen=True):
    event_id: UUID
    weight_kg: float
    occurred_at: datetime


class ImageRow(msgspec.Struct, frozen=True):
    media_id: UUID
    content_type: str | None
    size_bytes: int | None
    occurred_at: datetime


class InferenceRow(msgspec.Struct, frozen=True):
    inference_result_id: UUID
    media_id: UUID | None
    predicted_weight_kg: float | None
    predicted_size: str | None
    confidence: float | None
    model_version: str
    occurred_at: datetime


class SessionFilter(msgspec.Struct, frozen=True):
    """None: any. The names are those of the columns."""

    farm_id: str | None = None
    barn_id: str | None = None
    device_id: str | None = None
    batch_id: str | None = None
    status: Status | None = None


class SessionQuestion(msgspec.Struct, frozen=True):
    """Sessions whose earliest event lies between the two times."""

    tenant_id: str
    since: datetime
    until: datetime
    only: SessionFilter = SessionFilter()


async def sessions(
    connection: Connection, asked: SessionQuestion, *, before: AfterSession | None = None, limit: int
) -> list[SessionRow]:
    """Newest first, by the earliest event of each."""
    given = {name: value for name, value in msgspec.structs.asdict(asked.only).items() if value is not None}
    # Only what was asked for stands in the statement, so that PostgreSQL sees which index serves.
    filters = "".join(f" AND {name} = ${number}" for number, name in enumerate(given, start=6))
    end = before or AfterSession(asked.until, SMALLEST_ID)
    statement = _PAGE.format(filters=filters)
    rows = await connection.fetch(statement, asked.tenant_id, asked.since, *end, limit, *given.values())
    return [SessionRow(**row) for row in rows]


async def session(connection: Connection, *, tenant_id: str, session_id: UUID) -> SessionRow | None:
    row = await connection.fetchrow(_ONE, tenant_id, session_id)
    return None if row is None else SessionRow(**row)


async def stored_between(connection: Connection, tenant_id: str, session_id: UUID) -> tuple[datetime, datetime]:
    """When the first of the session's events was stored here, and when one last changed it. It has to be known."""
    row = await connection.fetchrow(_STORED, tenant_id, session_id)
    assert row is not None  # noqa: S101 - the caller has just read it
    return row["created_at"], row["updated_at"]


async def weights(connection: Connection, tenant_id: str, session_id: UUID) -> list[WeightRow]:
    return [WeightRow(**row) for row in await connection.fetch(_WEIGHTS, tenant_id, session_id, PARTS_MAX)]


async def images(connection: Connection, tenant_id: str, session_id: UUID) -> list[ImageRow]:
    return [ImageRow(**row) for row in await connection.fetch(_IMAGES, tenant_id, session_id, PARTS_MAX)]


async def inferences(connection: Connection, tenant_id: str, session_id: UUID) -> list[InferenceRow]:
    return [InferenceRow(**row) for row in await connection.fetch(_RESULTS, tenant_id, session_id, PARTS_MAX)]

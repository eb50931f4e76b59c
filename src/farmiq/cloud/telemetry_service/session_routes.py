"""Weigh sessions: which there are, and one of them with everything that belongs to it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from litestar import Request, get
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from farmiq.cloud.media_store.intake import pictures_named, pictures_of
from farmiq.cloud.telemetry_service import session_queries
from farmiq.cloud.telemetry_service.session_parts import Lack, Pictures, lacking, pictures_of_session
from farmiq.cloud.telemetry_service.session_queries import (
    AfterSession,
    SessionFilter,
    SessionQuestion,
    SessionRow,
    Status,
)
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.day_digests import DayDigests
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.export import PAGE_ROWS, AnyFormat, Exports, pages_of, wanted
from farmiq.timeseries.export_columns import Column, Pages, Rows
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import (
    After,
    AnyBarn,
    AnyDevice,
    AnyFarm,
    From,
    Limit,
    Tenant,
    To,
    position,
    time_range,
)
from farmiq.timeseries.record_routes import record_routes

AnyBatch = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyStatus = Annotated[Status | None, QueryParameter()]

COLUMNS: Final = (
    Column("tenant_id", "text"), Column("id", "uuid"), Column("farm_id", "text"), Column("barn_id", "text"),
    Column("device_id", "text"), Column("batch_id", "text"), Column("status", "text"), Column("start_at", "time"),
    Column("end_at", "time"), Column("initial_weight_kg", "float"), Column("final_weight_kg", "float"),
    Column("cancel_reason", "text"), Column("image_count", "int"), Column("inference_result_id", "uuid"),
    Column("first_event_at", "time"), Column("trace_id", "text"), Column("weights", "int"),
    Column("images_announced", "int"), Column("inferences", "int"),
)  # fmt: skip


class SessionPage(msgspec.Struct, frozen=True):
    """`next` continues after the last session; it is null on the last page."""

    sessions: list[SessionRow]
    next: str | None


class SessionView(msgspec.Struct, frozen=True):
    """`lacks` names what has not come yet; empty, the session is complete. The session's events were stored here between
    `first_stored_at` and `last_stored_at`."""

    session: SessionRow
    weights: list[session_queries.WeightRow]
    inferences: list[session_queries.InferenceRow]
    pictures: Pictures
    lacks: list[Lack]
    first_stored_at: datetime
    last_stored_at: datetime


def session_routes(pool: Pool, guards: Sequence[Any], exports: Exports) -> list[Any]:
    @get("/api/v1/weighvision/sessions", guards=guards, tags=["weighvision"])
    async def weigh_sessions(
        request: Request[Any, Any, Any],
        tenant_id: Tenant,
        farm_id: AnyFarm = None,
        barn_id: AnyBarn = None,
        device_id: AnyDevice = None,
        batch_id: AnyBatch = None,
        status: AnyStatus = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
        kind: AnyFormat = None,
    ) -> SessionPage | Stream:
        """Sessions, newest first: those that began in the 24 hours up to `to` (default: now) unless `from` says otherwise.

        As a file (`format=csv`, `arrow` or `parquet`) all of them come at once; `after` and `limit` mean nothing then.
        """
        lower, upper = time_range(since, until)
        only = SessionFilter(farm_id, barn_id, device_id, batch_id, status)
        asked = SessionQuestion(tenant_id, lower, upper, only)
        if (file_kind := wanted(kind, request.headers.get("accept", ""))) != "json":
            return await exports.answer(file_kind, f"sessions-{tenant_id}", COLUMNS, _pages(pool, asked))
        async with read_as(pool, tenant_id) as connection:
            rows = await session_queries.sessions(connection, asked, before=position(after, AfterSession), limit=limit)
        return SessionPage(rows, cursor(_last(rows)) if len(rows) == limit else None)

    @get("/api/v1/weighvision/session-days", guards=guards, tags=["weighvision"])
    async def session_days(
        tenant_id: Tenant, device_id: AnyDevice = None, since: From = None, until: To = None
    ) -> DayDigests:
        """How many sessions began on each day, by station and status, with a digest of which they are: for comparing tiers."""
        async with read_as(pool, tenant_id) as connection:
            return await session_queries.DIGESTED.days(connection, tenant_id, device_id, *time_range(since, until))

    @get("/api/v1/weighvision/sessions/{session_id:uuid}", guards=guards, tags=["weighvision"])
    async def weigh_session(session_id: FromPath[UUID], tenant_id: Tenant) -> SessionView:
        """One session with its weights, pictures and inference results, and what it still lacks."""
        async with read_as(pool, tenant_id) as connection:
            found = await _view(connection, tenant_id, session_id)
        if found is None:
            raise ApiError(404, "unknown_session", f"This tenant has no session {session_id}")
        return found

    kinds = {
        "sessions": session_queries.DIGESTED,
        "weights": session_queries.RECORDED_WEIGHTS,
        "images": session_queries.CAPTURED_IMAGES,
        "results": session_queries.RESULTS,
    }
    return [weigh_sessions, session_days, weigh_session, *record_routes(pool, guards, kinds)]


async def _view(connection: Connection, tenant_id: str, session_id: UUID) -> SessionView | None:
    session = await session_queries.session(connection, tenant_id=tenant_id, session_id=session_id)
    if session is None:
        return None
    weights = await session_queries.weights(connection, tenant_id, session_id)
    images = await session_queries.images(connection, tenant_id, session_id)
    inferences = await session_queries.inferences(connection, tenant_id, session_id)
    # A picture that was sent before its session was known carries none: the session's own list finds it.
    known = await pictures_named(connection, tenant_id, [image.media_id for image in images])
    sent = await pictures_of(connection, tenant_id, [session_id])
    stored = await session_queries.stored_between(connection, tenant_id, session_id)
    known |= {picture.media_id: picture for picture in sent[session_id]}
    pictures = pictures_of_session(session, images, known)
    return SessionView(session, weights, inferences, pictures, lacking(session, pictures), *stored)


def _pages(pool: Pool, asked: SessionQuestion) -> Pages:
    async def ask(before: AfterSession | None) -> tuple[Rows, AfterSession | None]:
        async with read_as(pool, asked.tenant_id) as connection:
            rows = await session_queries.sessions(connection, asked, before=before, limit=PAGE_ROWS)
        values = [(asked.tenant_id, *msgspec.structs.astuple(row)) for row in rows]
        return values, _last(rows) if len(rows) == PAGE_ROWS else None

    return pages_of(ask)


def _last(rows: Sequence[SessionRow]) -> AfterSession:
    return AfterSession(rows[-1].first_event_at, rows[-1].id)

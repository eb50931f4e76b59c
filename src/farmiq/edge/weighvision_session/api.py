from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Meta
from msgspec.structs import replace
from structlog.contextvars import get_contextvars

from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import EARLIEST, LATEST, Timestamp
from farmiq.contracts.weighvision import WeightKg
from farmiq.edge.media_store import intake as media
from farmiq.edge.weighvision_session import handlers, questions
from farmiq.edge.weighvision_session.views import SessionDetail, SessionView, detail_of, view_of
from farmiq.kit.clock import Clock
from farmiq.kit.day_digests import DayDigests
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.outbox import Announcer
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Tenant, To, position, time_range
from farmiq.timeseries.record_routes import record_routes

AnyStatus = Annotated[Literal["created", "finalized", "cancelled"] | None, QueryParameter()]
AnyBatch = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
OnlyIncomplete = Annotated[bool, QueryParameter()]
SessionLimit = Annotated[int, QueryParameter(ge=1, le=500)]
Because = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*\Z")]


class AfterSession(NamedTuple):
    at: Timestamp
    id: UUID


class SessionPage(msgspec.Struct, frozen=True):
    """`next` continues after the last session, given as `after`; it is null on the last page."""

    sessions: list[SessionView]
    next: str | None


class AttachRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    media_id: UUID
    reason: Because | None = None


class FinalizeRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`final_weight_kg` counts where the station gave none."""

    reason: Because
    final_weight_kg: WeightKg | None = None


def routes(pool: Pool, admin_token: str, clock: Clock, announcer: Announcer, kept: timedelta) -> list[Any]:
    guards = [require_bearer(admin_token)]

    def order(tenant_id: str, session_id: UUID, reason: str | None) -> handlers.Order:
        trace_id = str(get_contextvars().get("trace_id", "")) or None
        return handlers.Order(tenant_id, session_id, reason, clock.now(), trace_id)

    @get("/api/v1/weighvision/sessions", guards=guards, tags=["sessions"])
    async def sessions(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        batch_id: AnyBatch = None,
        status: AnyStatus = None,
        incomplete: OnlyIncomplete = False,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: SessionLimit = 100,
    ) -> SessionPage:
        """Weigh sessions, newest first. `incomplete=true`: only those that wait for something for too long."""
        lower, upper = (EARLIEST, LATEST) if since is None and until is None else time_range(since, until)
        wanted = questions.Wanted(
            tenant_id=tenant_id,
            device_id=device_id,
            batch_id=batch_id,
            status=status,
            is_incomplete=incomplete,
            since=lower,
            until=upper,
        )
        async with read_as(pool, tenant_id) as connection:
            page = await questions.page(connection, wanted, position(after, AfterSession), limit)
            tallies = await media.pictures_of(connection, tenant_id, [kept.id for _, kept in page])
        ended = cursor(AfterSession(page[-1][0], page[-1][1].id)) if len(page) == limit else None
        return SessionPage([view_of(kept, tallies[kept.id]) for _, kept in page], ended)

    @get("/api/v1/weighvision/session-days", guards=guards, tags=["sessions"])
    async def session_days(
        tenant_id: Tenant, device_id: AnyDevice = None, since: From = None, until: To = None
    ) -> DayDigests:
        """How many sessions began on each day, by station and status, with a digest of which they are: for comparing tiers."""
        async with read_as(pool, tenant_id) as connection:
            found = await questions.DIGESTED.days(connection, tenant_id, device_id, *time_range(since, until))
        return replace(found, kept_since=clock.now() - kept)

    @get("/api/v1/weighvision/sessions/{session_id:uuid}", guards=guards, tags=["sessions"])
    async def session(session_id: FromPath[UUID], tenant_id: Tenant) -> SessionDetail:
        """One session: its weights, its pictures and where each is, what models said, and what is missing."""
        return await _detail(pool, tenant_id, session_id)

    @post("/api/v1/weighvision/sessions/{session_id:uuid}/attach", guards=guards, tags=["sessions"], status_code=200)
    async def attach(session_id: FromPath[UUID], tenant_id: Tenant, data: JSONBody[AttachRequest]) -> SessionDetail:
        """Give a picture that belongs to no session to this one. Doing it again changes nothing."""
        await handlers.attach(pool, order(tenant_id, session_id, data.reason), data.media_id)
        announcer.announce()
        return await _detail(pool, tenant_id, session_id)

    @post("/api/v1/weighvision/sessions/{session_id:uuid}/finalize", guards=guards, tags=["sessions"], status_code=200)
    async def finalize(session_id: FromPath[UUID], tenant_id: Tenant, data: JSONBody[FinalizeRequest]) -> SessionDetail:
        """Close a session with what is there, and say why. Its alert ends; the station's own word, should it come, counts."""
        await handlers.finalize(pool, order(tenant_id, session_id, data.reason), data.final_weight_kg)
        return await _detail(pool, tenant_id, session_id)

    return [sessions, session_days, session, attach, finalize, *compared_routes(pool, guards, clock, kept)]


def compared_routes(pool: Pool, guards: Sequence[Any], clock: Clock, kept: timedelta) -> list[Any]:
    async def kept_since(_connection: Connection) -> datetime:
        return clock.now() - kept

    kinds = {
        "sessions": questions.DIGESTED,
        "weights": questions.RECORDED_WEIGHTS,
        "images": questions.CAPTURED_IMAGES,
    }
    return record_routes(pool, guards, kinds, kept_since)


async def _detail(pool: Pool, tenant_id: str, session_id: UUID) -> SessionDetail:
    async with read_as(pool, tenant_id) as connection:
        kept = await questions.one(connection, tenant_id, session_id)
        if kept is None:
            raise ApiError(404, "unknown_session", f"This tenant has no session {session_id}")
        tallies = await media.pictures_of(connection, tenant_id, [session_id])
        return await detail_of(connection, kept, tallies[session_id])

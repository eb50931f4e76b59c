"""What happens to sessions by the clock and by people's hands. Each is one transaction."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from farmiq.edge.alerts import Kind, close_alert, raise_alert
from farmiq.edge.media_store import intake as media
from farmiq.edge.own_events import append_own, naming
from farmiq.edge.sync_forwarder.intake import revision_floor
from farmiq.edge.weighvision_session import store
from farmiq.edge.weighvision_session.intake import PICTURES_MAX, SESSION_FULL
from farmiq.edge.weighvision_session.kept import Kept
from farmiq.edge.weighvision_session.outgoing import append_ending
from farmiq.edge.weighvision_session.session import Picture, Ruling, Session
from farmiq.edge.weighvision_session.telling import attached, ending
from farmiq.edge.weighvision_session.watch import Judgement, Patience, judge
from farmiq.kit.http_server import ApiError
from farmiq.kit.ids import new_id
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.asking import asking

PAGE_SESSIONS: Final = 200
INCOMPLETE_KIND: Final[Kind] = "weigh_session_incomplete"
UNANSWERED: Final = timedelta(seconds=20)
"""Until a restored edge looks again whether the cloud has answered it."""

log = get_logger(__name__)


class Order(msgspec.Struct, frozen=True):
    """What an operator wants done, when it was asked for, and under which trace."""

    tenant_id: str
    session_id: UUID
    reason: str | None
    at: datetime
    trace_id: str | None = None


class Looked(msgspec.Struct, frozen=True):
    """How many sessions were looked at, and what became of them."""

    sessions: int = 0
    told: int = 0
    incomplete: int = 0
    healed: int = 0


async def look(pool: Pool, now: datetime, patience: Patience) -> Looked:
    """Look at up to a page of sessions to which something came, or whose time is over.

    Killed before the commit, nothing has happened and the next look finds them; after it, all of it has.
    """
    async with pool.acquire() as connection, connection.transaction():
        due = await store.lock_due(connection, now, PAGE_SESSIONS)
        looks = [await _look(connection, kept, now, patience) for kept in await store.read(connection, due)]
    return Looked(
        len(looks),
        sum(one.told for one in looks),
        sum(one.incomplete for one in looks),
        sum(one.healed for one in looks),
    )


async def attach(pool: Pool, order: Order, media_id: UUID) -> None:
    """Give a picture to a session by hand. Doing it again changes nothing."""
    session_id, now = order.session_id, order.at
    async with asking(pool) as connection, connection.transaction():
        # The picture's row before the session's, as everybody does who takes both.
        bound = await media.bind(connection, tenant_id=order.tenant_id, media_id=media_id, session_id=session_id)
        kept = await _own(connection, order)
        if bound.refusal is not None or bound.picture is None:
            raise ApiError(409 if bound.picture else 404, bound.refusal or "unknown_media", _why_not(bound.picture))
        if media_id in kept.session.pictures:
            return
        if await store.is_full(connection, kept.key, media_id, PICTURES_MAX):
            raise ApiError(409, SESSION_FULL, f"A session has at most {PICTURES_MAX} pictures")
        picture = Picture(stored_at=bound.picture.whole_since)
        await store.add_picture(connection, kept.key, media_id, picture, attached_at=now)
        await _note(connection, order, new_id(), "attach", media_id)
        await append_own(connection, [attached(kept.subject, media_id, now, await naming(connection))])
        await store.touch(connection, [kept.key], now)


async def finalize(pool: Pool, order: Order, final_weight_kg: float | None) -> None:
    """Close a session with what is there. Doing it again changes nothing; one that is closed and whole is left alone."""
    async with asking(pool) as connection, connection.transaction():
        kept = await _own(connection, order)
        session = kept.session
        if session.ruling is not None:
            return
        if not session.is_awaited:
            raise ApiError(409, "session_closed", f"The session is {session.status}, and nothing of it is missing")
        ruling = Ruling(order.at, new_id(), order.reason or "", session.pictures_stored, final_weight_kg)
        await store.save(connection, kept, session.join(Session(ruling=ruling)), order.at)
        await _note(connection, order, ruling.event_id, "finalize")


def alert_key(session_id: UUID) -> str:
    return f"{INCOMPLETE_KIND}:{session_id}"


async def _own(connection: Connection, order: Order) -> Kept:
    """The session, locked. Another tenant's does not exist here."""
    key = (order.tenant_id, order.session_id)
    if not await store.lock(connection, [key]):
        raise ApiError(404, "unknown_session", f"This tenant has no session {order.session_id}")
    return (await store.read(connection, [key]))[0]


async def _note(
    connection: Connection, order: Order, operation_id: UUID, action: str, media_id: UUID | None = None
) -> None:
    """In the database and in the log: who looks later finds it in either."""
    await store.add_operation(
        connection,
        operation_id,
        (order.tenant_id, order.session_id),
        action,
        order.at,
        media_id=media_id,
        reason=order.reason,
        trace_id=order.trace_id,
    )
    log.info(
        "session_changed_by_hand", action=action, tenant_id=order.tenant_id, session_id=order.session_id,
        media_id=media_id, reason=order.reason,
    )  # fmt: skip


def _why_not(picture: object) -> str:
    return "The picture belongs to another session" if picture else "This tenant has no such picture"


async def _look(connection: Connection, kept: Kept, now: datetime, patience: Patience) -> Looked:
    session, told = kept.session, kept.told
    judgement = judge(session, kept.heard, kept.incomplete_since, told, now, patience)
    look_at, telling = judgement.look_at, None
    if judgement.is_to_be_told:
        floor = await revision_floor(connection, kept.origin.tenant_id)
        if floor is None:
            look_at = min(look_at or now + UNANSWERED, now + UNANSWERED)
        else:
            telling = ending(kept.subject, session, told, await naming(connection), floor)
    if telling is not None:
        event, told = telling
        await append_ending(connection, event)
    await _alert(connection, kept, judgement)
    await store.settle(connection, kept, judgement.incomplete_since, look_at, told, now)
    was, is_now = kept.incomplete_since is not None, judgement.incomplete_since is not None
    return Looked(1, int(telling is not None), int(is_now and not was), int(was and not is_now))


async def _alert(connection: Connection, kept: Kept, judgement: Judgement) -> None:
    tenant_id, key = kept.origin.tenant_id, alert_key(kept.id)
    if judgement.incomplete_since is not None:
        subject = f"Weigh session {kept.id} of {kept.origin.device_id} is incomplete: {_missing(kept.session)}"
        await raise_alert(connection, INCOMPLETE_KIND, subject, key, _evidence(kept), tenant_id)
    elif kept.incomplete_since is not None:
        await close_alert(connection, key, tenant_id)


def _missing(session: Session) -> str:
    missing = session.missing
    parts = {"created": missing.created, "weight": missing.weight, "finalized": missing.finalized}
    named = [f"no {name}" for name, is_missing in parts.items() if is_missing]
    if missing.pictures:
        named.append(f"{missing.pictures} of {missing.pictures + session.pictures_stored} pictures missing")
    return ", ".join(named)


def _evidence(kept: Kept) -> dict[str, object]:
    session = kept.session
    return {
        "session_id": str(kept.id),
        "device_id": kept.origin.device_id,
        "status": session.status,
        "missing": msgspec.structs.asdict(session.missing),
        "image_count": session.image_count,
        "pictures_stored": session.pictures_stored,
        "pictures_known": len(session.pictures),
    }

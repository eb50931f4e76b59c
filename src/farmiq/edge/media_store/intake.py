"""What other services of the edge may call: inside their transaction, never by SQL of their own. Nothing asks the object store.

Whoever locks rows of its own beside these (a weigh session) does so after `announce` or `bind`, never before: a picture that is
just being stored holds its row and then asks for the session's.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.media_store import store
from farmiq.edge.media_store.picture import Picture, ShownState
from farmiq.edge.media_store.screening import OTHER_SESSION, UNKNOWN_MEDIA, contradiction
from farmiq.kit.postgres import Connection
from farmiq.timeseries.stream import Origin


class Announcement(Struct, frozen=True):
    """`weighvision.image.captured`, from whom its topic says. `session_id` is the topic's too; `captured_at` the envelope's."""

    origin: Origin
    captured: ImageCaptured
    session_id: UUID | None = None
    captured_at: datetime | None = None


class Announced(Struct, frozen=True):
    """`refusal` is the code under which the message is refused. `picture` is as it was before, with the session it has now."""

    refusal: str | None
    state: ShownState | None = None
    picture: Picture | None = None


class SessionPictures(Struct, frozen=True):
    """A weigh session's pictures. `awaited` were announced and are not verified yet; `presigned` nobody has spoken of."""

    stored: int = 0
    awaited: int = 0
    presigned: int = 0
    refused: int = 0
    missing: int = 0
    lost: int = 0
    """Those of them that were declared lost, refused or missing."""


async def announce(connection: Connection, announcements: Sequence[Announcement]) -> list[Announced]:
    """Devices say that pictures are in the object store. Answers in the same order; repeating it changes nothing.

    The pictures are looked at soon after the commit: at once when the caller tells of it with `outbox.Announcer.announce`. One
    that this edge never signed a URL for (its database was restored, or the device is mistaken) is refused: the device asks for
    a URL and uploads it again.
    """
    known = await store.lock_all(connection, [announcement.captured.media_id for announcement in announcements])
    return [await _announce(connection, announcement, known) for announcement in announcements]


async def bind(connection: Connection, *, tenant_id: str, media_id: UUID, session_id: UUID) -> Announced:
    """Give a picture to a session. One that belongs to another session stays there."""
    picture = await store.lock(connection, media_id)
    if picture is None or picture.tenant_id != tenant_id:
        return Announced(UNKNOWN_MEDIA)
    if picture.session_id not in (None, session_id):
        return Announced(OTHER_SESSION, picture.shown_state, picture)
    await store.bind(connection, media_id, session_id)
    return Announced(None, picture.shown_state, _with_session(picture, session_id))


async def pictures_of(
    connection: Connection, tenant_id: str, session_ids: Sequence[UUID]
) -> dict[UUID, SessionPictures]:
    """How many pictures each session has, and in which state. Every session that was asked for is in the answer."""
    found = {row["session_id"]: dict(row) for row in await store.tally(connection, tenant_id, session_ids)}
    return {session_id: _tally(found.get(session_id, {})) for session_id in session_ids}


async def listed(connection: Connection, tenant_id: str, session_id: UUID, limit: int) -> list[Picture]:
    """A session's pictures, newest first."""
    return await store.page(connection, tenant_id, {"session_id": session_id}, None, limit)


async def _announce(connection: Connection, announcement: Announcement, known: dict[UUID, Picture]) -> Announced:
    captured, session_id = announcement.captured, announcement.session_id
    picture = known.get(captured.media_id)
    if picture is None or not picture.origin.is_same_device(announcement.origin):
        return Announced(UNKNOWN_MEDIA)
    if (code := contradiction(picture, captured, session_id)) is not None:
        return Announced(code, picture.shown_state, picture)
    await store.announce(
        connection,
        picture.media_id,
        session_id=session_id,
        size_bytes=captured.size_bytes,
        sha256=None if captured.sha256 is None else captured.sha256.lower(),
        captured_at=announcement.captured_at,
    )
    # A session's second word about the same picture in one batch must see the first.
    known[picture.media_id] = _with_session(picture, session_id)
    is_awaited = picture.state == "presigned" or (picture.state == "missing" and picture.declared_lost_at is None)
    state: ShownState = "awaited" if is_awaited else picture.state
    return Announced(None, state, known[picture.media_id])


def _with_session(picture: Picture, session_id: UUID | None) -> Picture:
    return replace(picture, session_id=picture.session_id or session_id)


def _tally(row: dict[str, int]) -> SessionPictures:
    return SessionPictures(**{name: row[name] for name in SessionPictures.__struct_fields__ if name in row})

"""Asking both tiers for their weigh sessions and pictures: digests of all days first, names only where these differ."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.held import known
from farmiq.audit.records import records_of
from farmiq.audit.weighings import CloudSession, EdgeSession, Picture, Station, WeighingReading, uneven_days
from farmiq.console.fleet.answers import Device
from farmiq.console.neighbours import Neighbours, Refused
from farmiq.contracts.timestamps import LATEST
from farmiq.kit.day_digests import DayDigest, DayDigests

SESSIONS: Final = "edge-weighvision-session"
CLOUD_SESSIONS: Final = "cloud-telemetry-service"
MEDIA: Final = "edge-media-store"
CLOUD_MEDIA: Final = "cloud-media-store"
SYNC: Final = "edge-sync-forwarder"

DAY: Final = timedelta(days=1)
A_PAGE: Final = 500
NAMED_AT_ONCE: Final = 200

Days = tuple[datetime, datetime]


class Scope(Struct, frozen=True):
    tenant_id: str
    device_id: str | None
    since: datetime
    until: datetime

    def query(self, days: Days | None = None) -> dict[str, Any]:
        since, until = days or (self.since, self.until)
        return {
            "tenant_id": self.tenant_id,
            "device_id": self.device_id,
            "from": since.isoformat(),
            "to": until.isoformat(),
        }


class CloudSide(Struct, frozen=True):
    """Asked for before anything else."""

    session_days: list[DayDigest]
    picture_days: list[DayDigest]


async def ask_cloud(neighbours: Neighbours, scope: Scope) -> CloudSide:
    return CloudSide(
        await _days(neighbours, CLOUD_SESSIONS, "/api/v1/weighvision/session-days", scope),
        await _days(neighbours, CLOUD_MEDIA, "/api/v1/media-days", scope),
    )


async def ask_edge(
    neighbours: Neighbours,
    scope: Scope,
    cloud: CloudSide,
    waiting_sessions: frozenset[UUID],
    registered: Iterable[Device],
) -> WeighingReading:
    stations = list(registered)
    told = await neighbours.get(SESSIONS, "/api/v1/weighvision/session-days", DayDigests, **scope.query())
    session_days, own = told.days, _own(stations, told.kept_since)
    taken = await neighbours.get(MEDIA, "/api/v1/media-days", DayDigests, **scope.query())
    picture_days, own_pictures = taken.days, _own(stations, taken.kept_since)
    cloud_sessions: dict[UUID, CloudSession] = {}
    sessions: list[EdgeSession] = []
    rows: dict[UUID, str] = {}
    for days in _runs(uneven_days(session_days, cloud.session_days, own=own)):
        rows |= await _differing_rows(neighbours, scope, days)
        cloud_sessions |= {one.id: one async for one in _cloud_sessions(neighbours, scope, days)}
        sessions += [one async for one in _edge_sessions(neighbours, scope, days)]
    cloud_sessions |= await _named(neighbours, scope, [one.id for one in sessions if one.id not in cloud_sessions])
    forgotten = await _forgotten(neighbours, scope, own, cloud_sessions, {one.id for one in sessions})
    cloud_pictures: dict[UUID, Picture] = {}
    pictures: list[Picture] = []
    for days in _runs(uneven_days(picture_days, cloud.picture_days, state="stored", own=own_pictures)):
        cloud_pictures |= {one.media_id: one async for one in _cloud_pictures(neighbours, scope, days)}
        pictures += [one async for one in _edge_pictures(neighbours, scope, days)]
    pictures = await _with_attached(neighbours, scope, pictures, cloud_pictures)
    forgotten_pictures = await _forgotten_pictures(
        neighbours, scope, own_pictures, cloud_pictures, {one.media_id for one in pictures}
    )
    unsent = [one.media_id for one in pictures if _is_lacking(cloud_pictures.get(one.media_id))]
    return WeighingReading(
        tenant_id=scope.tenant_id,
        edge_session_days=session_days,
        cloud_session_days=cloud.session_days,
        edge_picture_days=picture_days,
        cloud_picture_days=cloud.picture_days,
        sessions=sessions,
        cloud_sessions=cloud_sessions,
        forgotten=forgotten,
        pictures=pictures,
        cloud_pictures=cloud_pictures,
        differing_rows=rows,
        forgotten_pictures=forgotten_pictures,
        transfers=await _transfers(neighbours, unsent),
        waiting_sessions=waiting_sessions,
        incomplete=await _incomplete(neighbours, scope),
        stations=[_station(device) for device in stations if device.kind == "station"],
    )


async def _days(neighbours: Neighbours, service: str, path: str, scope: Scope) -> list[DayDigest]:
    return (await neighbours.get(service, path, DayDigests, **scope.query())).days


def _runs(days: Iterable[datetime]) -> Iterator[Days]:
    """Days beside each other, as one question. One day more at each end: tiers may put a session of midnight on either."""
    ordered = sorted(days)
    if not ordered:
        return
    breaks = [index for index, (one, other) in enumerate(pairwise(ordered), 1) if other - one > 3 * DAY]
    for first, end in pairwise([0, *breaks, len(ordered)]):
        yield ordered[first] - DAY, ordered[end - 1] + 2 * DAY


class _EdgeSessions(Struct, frozen=True):
    sessions: list[EdgeSession]
    next: str | None = None


class _CloudSessions(Struct, frozen=True):
    sessions: list[CloudSession]
    next: str | None = None


class _CloudDetail(Struct, frozen=True):
    session: CloudSession


class _EdgeDetail(Struct, frozen=True):
    session: EdgeSession


class _Binding(Struct, frozen=True):
    media_id: UUID
    attached_at: datetime | None = None


class _EdgeBindings(Struct, frozen=True):
    pictures: list[_Binding]


class _EdgePictures(Struct, frozen=True):
    pictures: list[Picture]
    next: str | None = None


class _CloudPictures(Struct, frozen=True):
    media: list[Picture]
    next: str | None = None


class _Transfer(Struct, frozen=True):
    media_id: UUID
    state: str


class _Transfers(Struct, frozen=True):
    entries: list[_Transfer]


Page = TypeVar("Page", _EdgeSessions, _CloudSessions, _EdgePictures, _CloudPictures)


async def _pages(
    neighbours: Neighbours, service: str, path: str, kind: type[Page], query: dict[str, Any]
) -> AsyncIterator[Page]:
    after: str | None = None
    while True:
        page = await neighbours.get(service, path, kind, **query, after=after, limit=A_PAGE)
        yield page
        after = page.next
        if after is None:
            return


async def _edge_sessions(neighbours: Neighbours, scope: Scope, days: Days) -> AsyncIterator[EdgeSession]:
    async for page in _pages(neighbours, SESSIONS, "/api/v1/weighvision/sessions", _EdgeSessions, scope.query(days)):
        for one in page.sessions:
            yield one


async def _cloud_sessions(neighbours: Neighbours, scope: Scope, days: Days) -> AsyncIterator[CloudSession]:
    async for page in _pages(
        neighbours, CLOUD_SESSIONS, "/api/v1/weighvision/sessions", _CloudSessions, scope.query(days)
    ):
        for one in page.sessions:
            yield one


async def _differing_rows(neighbours: Neighbours, scope: Scope, days: Days) -> dict[UUID, str]:
    """An edge puts a session together from its parts when it is asked for one; what stands in its row may be something else."""
    path = "/api/v1/records/sessions"
    try:
        there = {one.id: one async for one in records_of(neighbours, CLOUD_SESSIONS, path, scope.query(days))}
        here = {one.id: one async for one in records_of(neighbours, SESSIONS, path, scope.query(days))}
    except Refused as error:
        if error.status != 404:
            raise
        return {}
    return {
        key: f"in its row {one.content} at the edge, {there[key].content} in the cloud"
        for key, one in here.items()
        if key in there and one.content != there[key].content
    }


async def _named(neighbours: Neighbours, scope: Scope, session_ids: Sequence[UUID]) -> dict[UUID, CloudSession]:
    """One by one: a session whose beginning nobody has told may stand on another day there."""
    found: dict[UUID, CloudSession] = {}
    for session_id in session_ids[:NAMED_AT_ONCE]:
        try:
            path = f"/api/v1/weighvision/sessions/{session_id}"
            answer = await neighbours.get(CLOUD_SESSIONS, path, _CloudDetail, tenant_id=scope.tenant_id)
        except Refused as error:
            if error.status != 404:
                raise
        else:
            found[session_id] = answer.session
    return found


def _own(devices: Iterable[Device], kept_since: datetime | None) -> dict[str, datetime]:
    """Since when the edge should have every session of its devices: since each was registered, as far as sessions are kept."""
    if kept_since is None:
        return {}
    return {one.device_id: max(one.created_at, kept_since) for one in devices if one.created_at is not None}


async def _forgotten(
    neighbours: Neighbours,
    scope: Scope,
    own: Mapping[str, datetime],
    there: Mapping[UUID, CloudSession],
    here: Collection[UUID],
) -> list[CloudSession]:
    """Those that only the cloud has. The edge is asked for each, up to some: it may stand on another day there."""

    def is_due(one: CloudSession) -> bool:
        since = own.get(one.device_id or "")
        return since is not None and one.first_event_at is not None and one.first_event_at >= since

    lacking = [one for one in there.values() if one.id not in here and is_due(one)]
    found = lacking[NAMED_AT_ONCE:]
    for one in lacking[:NAMED_AT_ONCE]:
        try:
            path = f"/api/v1/weighvision/sessions/{one.id}"
            await neighbours.get(SESSIONS, path, _EdgeDetail, tenant_id=scope.tenant_id)
        except Refused as error:
            if error.status != 404:
                raise
            found.append(one)
    return found


async def _with_attached(
    neighbours: Neighbours, scope: Scope, pictures: Sequence[Picture], there: Mapping[UUID, Picture]
) -> list[Picture]:
    """A picture whose session only the edge has may have been given to it by a person: the session says so."""

    def is_doubtful(one: Picture) -> bool:
        other = there.get(one.media_id)
        return one.session_id is not None and other is not None and other.session_id is None

    attached: set[UUID] = set()
    for session_id in sorted({one.session_id for one in pictures if one.session_id and is_doubtful(one)})[
        :NAMED_AT_ONCE
    ]:
        path = f"/api/v1/weighvision/sessions/{session_id}"
        answer = await known(neighbours, SESSIONS, path, _EdgeBindings, tenant_id=scope.tenant_id)
        attached |= {one.media_id for one in (answer.pictures if answer else ()) if one.attached_at is not None}
    return [replace(one, is_attached=one.media_id in attached) for one in pictures]


async def _forgotten_pictures(
    neighbours: Neighbours,
    scope: Scope,
    own: Mapping[str, datetime],
    there: Mapping[UUID, Picture],
    here: Collection[UUID],
) -> list[Picture]:
    """Those that only the cloud has, of stations of this edge. The edge is asked for each, up to some: it may be known there and
    not stored, or of another day."""
    lacking = [
        one
        for one in there.values()
        if one.media_id not in here
        and one.state == "stored"
        and one.captured_at is not None
        and one.captured_at >= own.get(one.device_id or "", LATEST)
    ]
    found = lacking[NAMED_AT_ONCE:]
    for one in lacking[:NAMED_AT_ONCE]:
        path = f"/api/v1/media/{one.media_id}"
        if await known(neighbours, MEDIA, path, Picture, tenant_id=scope.tenant_id) is None:
            found.append(one)
    return found


async def _edge_pictures(neighbours: Neighbours, scope: Scope, days: Days) -> AsyncIterator[Picture]:
    query = scope.query(days) | {"state": "stored"}
    async for page in _pages(neighbours, MEDIA, "/api/v1/media", _EdgePictures, query):
        for one in page.pictures:
            yield one


async def _cloud_pictures(neighbours: Neighbours, scope: Scope, days: Days) -> AsyncIterator[Picture]:
    async for page in _pages(neighbours, CLOUD_MEDIA, "/api/v1/media", _CloudPictures, scope.query(days)):
        for one in page.media:
            yield one


async def _transfers(neighbours: Neighbours, media_ids: Sequence[UUID]) -> dict[UUID, str]:
    found: dict[UUID, str] = {}
    for start in range(0, len(media_ids), NAMED_AT_ONCE):
        named = [str(one) for one in media_ids[start : start + NAMED_AT_ONCE]]
        page = await neighbours.get(SYNC, "/api/v1/sync/media", _Transfers, media_id=named)
        found |= {one.media_id: one.state for one in page.entries}
    return found


async def _incomplete(neighbours: Neighbours, scope: Scope) -> int:
    query = scope.query() | {"incomplete": "true"}
    return sum(
        [
            len(page.sessions)
            async for page in _pages(neighbours, SESSIONS, "/api/v1/weighvision/sessions", _EdgeSessions, query)
        ]
    )


def _is_lacking(there: Picture | None) -> bool:
    return there is None or there.state != "stored"


def _station(device: Device) -> Station:
    waiting = device.status.unacked_count if device.status else None
    return Station(device.device_id, waiting or 0, device.status_at)

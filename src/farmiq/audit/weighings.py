"""Weigh sessions by count and state, pictures by count and checksum. Pure.

Days that have the same digests at both tiers have the same rows. Of the others every session and picture was asked for by name.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.findings import Finding, found
from farmiq.audit.streams import BusRoom
from farmiq.kit.day_digests import DayDigest


class ExpectedPictures(Struct, frozen=True):
    expected: int | None = None


class EdgeSession(Struct, frozen=True):
    """`told_revision` is 0 until the cloud was told how it ended. `is_told`: it was told of the end as it is now. `is_settled`:
    the edge does not look at it again, so that nothing more is told."""

    id: UUID
    device_id: str
    status: str
    told_revision: int = 0
    is_told: bool = True
    final_weight_kg: float | None = None
    pictures: ExpectedPictures = ExpectedPictures()
    batch_id: str | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    initial_weight_kg: float | None = None
    inference_result_id: UUID | None = None
    is_settled: bool = False


class CloudSession(Struct, frozen=True):
    id: UUID
    status: str
    final_weight_kg: float | None = None
    image_count: int | None = None
    device_id: str | None = None
    first_event_at: datetime | None = None
    batch_id: str | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    initial_weight_kg: float | None = None
    inference_result_id: UUID | None = None


class Picture(Struct, frozen=True):
    """`sent_sha256`: at the edge, when the cloud gets the picture without its camera's notes. `is_attached`: at the edge, a
    person gave it to its session; the cloud knows that by the session's list of pictures."""

    media_id: UUID
    state: str
    sha256: str | None = None
    device_id: str | None = None
    sent_sha256: str | None = None
    captured_at: datetime | None = None
    session_id: UUID | None = None
    is_attached: bool = False


class Station(Struct, frozen=True):
    """What a station said last that it still holds: events, at `said_at`."""

    device_id: str
    events_waiting: int
    said_at: datetime | None = None


class WeighingReading(Struct, frozen=True, kw_only=True):
    """`sessions` and `pictures` are of the days on which the tiers differ, those of the edge; `transfers` says by picture what
    became of its way to the cloud. `waiting_sessions` have events in the outbox, `recent_sessions` may have some on the bus;
    `forgotten` ones are of its stations, and only the cloud has them, like `forgotten_pictures`."""

    tenant_id: str
    edge_session_days: Sequence[DayDigest] = ()
    cloud_session_days: Sequence[DayDigest] = ()
    edge_picture_days: Sequence[DayDigest] = ()
    cloud_picture_days: Sequence[DayDigest] = ()
    sessions: Sequence[EdgeSession] = ()
    cloud_sessions: Mapping[UUID, CloudSession] = {}
    forgotten: Sequence[CloudSession] = ()
    pictures: Sequence[Picture] = ()
    cloud_pictures: Mapping[UUID, Picture] = {}
    transfers: Mapping[UUID, str] = {}
    differing_rows: Mapping[UUID, str] = {}
    """Of sessions whose rows do not say the same at both tiers, in words."""
    forgotten_pictures: Sequence[Picture] = ()
    waiting_sessions: frozenset[UUID] = frozenset()
    recent_sessions: frozenset[UUID] = frozenset()
    incomplete: int = 0
    stations: Sequence[Station] = ()


class WeighingBalance(Struct, frozen=True, kw_only=True):
    """Sessions and pictures of the edge, and how many of them the cloud has.

    `pictures_awaited` are announced or signed for, and not at the edge yet; `pictures_missing` were announced and given up, which
    is declared; `pictures_refused` were no pictures."""

    tenant_id: str
    sessions: int
    sessions_finalized: int
    sessions_incomplete: int
    sessions_in_cloud: int
    sessions_in_flight: int
    pictures: int
    pictures_in_cloud: int
    pictures_in_flight: int
    pictures_awaited: int
    pictures_missing: int
    pictures_refused: int
    station_events_waiting: int
    findings: list[Finding]


def uneven_days(
    edge: Sequence[DayDigest],
    cloud: Sequence[DayDigest],
    *,
    state: str | None = None,
    own: Mapping[str, datetime] | None = None,
) -> set[datetime]:
    """Days on which the edge has something, and not just what the cloud has; of one state, or of all.

    A day that only the cloud has is of another edge, or this one's retention has taken it; unless `own` says that the edge has
    everything of this device since a time that is not later.
    """
    here, there = _by_day(edge, state), _by_day(cloud, state)
    forgotten = {(name, at) for name, at in there if own and name in own and at + timedelta(days=1) > own[name]}
    return {key[1] for key in {*here, *forgotten} if there.get(key) != here.get(key)}


def balance_weighings(reading: WeighingReading, bus: BusRoom) -> WeighingBalance:
    flying, session_findings = _sessions(reading, bus)
    sending, picture_findings = _pictures(reading)
    sessions, pictures = _rows(reading.edge_session_days), _rows(reading.edge_picture_days)
    lacking = sum(finding.kind in ("picture_missing", "picture_failed") for finding in picture_findings)
    missing = sum(finding.kind == "session_missing" for finding in session_findings)
    absent = sum(session.id not in reading.cloud_sessions for session in reading.sessions) - missing
    stored = pictures.get("stored", 0)
    return WeighingBalance(
        tenant_id=reading.tenant_id,
        sessions=sum(sessions.values()),
        sessions_finalized=sessions.get("finalized", 0),
        sessions_incomplete=reading.incomplete,
        sessions_in_cloud=sum(sessions.values()) - absent - missing,
        sessions_in_flight=flying,
        pictures=stored,
        pictures_in_cloud=stored - sending - lacking,
        pictures_in_flight=sending,
        pictures_awaited=pictures.get("presigned", 0),
        pictures_missing=pictures.get("missing", 0),
        pictures_refused=pictures.get("refused", 0),
        station_events_waiting=sum(station.events_waiting for station in reading.stations),
        findings=session_findings + picture_findings,
    )


def _sessions(reading: WeighingReading, bus: BusRoom) -> tuple[int, list[Finding]]:
    flying = 0
    findings = []
    for session in reading.sessions:
        there = reading.cloud_sessions.get(session.id)
        differing = [] if there is None else _differing(session, there)
        if there is not None and not differing and session.id in reading.differing_rows:
            differing = [reading.differing_rows[session.id]]
        if there is not None and not differing:
            continue
        # The edge tells of the end when the pictures are in, and after a while without them; and again when it has changed.
        is_current = session.told_revision > 0 and session.is_told
        is_untold = there is not None and not is_current and not session.is_settled
        is_recent = session.id in reading.recent_sessions
        if session.id in reading.waiting_sessions or is_untold or (is_recent and bus.take(1)):
            flying += 1
            continue
        kind = "session_missing" if there is None else "session_differs"
        finding = found(kind, reading.tenant_id, str(session.id), 1, device_id=session.device_id)
        findings.append(replace(finding, what="; ".join([finding.what, *differing])))
    findings += [
        found("session_forgotten", reading.tenant_id, str(one.id), 1, device_id=one.device_id)
        for one in reading.forgotten
    ]
    return flying, findings


def _differing(here: EdgeSession, there: CloudSession) -> list[str]:
    """What of it, in words. Rounded as in the digests of the days."""
    pairs = [
        ("station", here.device_id, there.device_id or "none"),
        ("status", here.status, there.status),
        ("batch", str(here.batch_id), str(there.batch_id)),
        ("begin", str(here.start_at), str(there.start_at)),
    ]
    if here.status == there.status != "created":
        pairs.append(("end", str(here.end_at), str(there.end_at)))
    if here.status == there.status == "finalized":
        weights = _rounded(here.final_weight_kg), _rounded(there.final_weight_kg)
        pairs += [
            ("first weight", _rounded(here.initial_weight_kg), _rounded(there.initial_weight_kg)),
            ("final weight", *weights),
            ("pictures", str(here.pictures.expected or 0), str(there.image_count or 0)),
            ("result of a model", str(here.inference_result_id), str(there.inference_result_id)),
        ]
    return [f"{name} {one} at the edge, {other} in the cloud" for name, one, other in pairs if one != other]


def _rounded(weight_kg: float | None) -> str:
    return "none" if weight_kg is None else f"{round(weight_kg, 6):g} kg"


def _pictures(reading: WeighingReading) -> tuple[int, list[Finding]]:
    sending = 0
    findings = []
    for picture in reading.pictures:
        there = reading.cloud_pictures.get(picture.media_id)
        if there is not None and there.state == "stored":
            if differing := _differing_pictures(picture, there):
                finding = _picture("picture_differs", reading, picture)
                findings.append(replace(finding, what="; ".join([finding.what, *differing])))
            continue
        match reading.transfers.get(picture.media_id):
            case "pending" | "sending":
                sending += 1
            case "failed":
                findings.append(_picture("picture_failed", reading, picture))
            case _:
                findings.append(_picture("picture_missing", reading, picture))
    findings += [_picture("picture_forgotten", reading, picture) for picture in reading.forgotten_pictures]
    return sending, findings


def _differing_pictures(here: Picture, there: Picture) -> list[str]:
    pairs = [
        ("SHA-256", here.sent_sha256 or here.sha256, there.sha256),
        ("taken", str(here.captured_at), str(there.captured_at)),
    ]
    if not (here.is_attached and there.session_id is None):
        pairs.append(("session", str(here.session_id), str(there.session_id)))
    return [f"{name} {one} at the edge, {other} in the cloud" for name, one, other in pairs if one != other]


def _picture(kind: str, reading: WeighingReading, picture: Picture) -> Finding:
    return found(kind, reading.tenant_id, str(picture.media_id), 1, device_id=picture.device_id)


def _by_day(days: Sequence[DayDigest], state: str | None) -> dict[tuple[str, datetime], set[tuple[str, int, str]]]:
    found_days: dict[tuple[str, datetime], set[tuple[str, int, str]]] = {}
    for day in days:
        if state in (None, day.state):
            found_days.setdefault((day.device_id, day.day_at), set()).add((day.state, day.rows, day.digest))
    return found_days


def _rows(days: Sequence[DayDigest]) -> dict[str, int]:
    counted: dict[str, int] = {}
    for day in days:
        counted[day.state] = counted.get(day.state, 0) + day.rows
    return counted

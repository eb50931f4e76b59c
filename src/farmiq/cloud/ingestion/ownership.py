"""Which edge may send what of a device and of a weigh session.

A device belongs to the edge that registered it, else to the first that delivered something of it; a session to the edge of
its device. A row of `device_owners` is written once, and changed by a person alone: `farmiq device move`. The edge from which a
device was moved may still deliver what occurred before the move, until a date, and finish the sessions that it had begun.

Owners are kept in memory for as long as the version in the database stays the same. Every move raises it in its own transaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from msgspec import Struct

from farmiq.contracts import event_types
from farmiq.contracts.sync import DEVICE_MOVED, DEVICE_OF_ANOTHER_EDGE, SESSION_OF_ANOTHER_EDGE
from farmiq.kit.postgres import Connection

if TYPE_CHECKING:
    # Only its name is needed here, and screening brings the web stack, which the command line has no use for.
    from farmiq.cloud.ingestion.screening import Candidate

DeviceKey: TypeAlias = tuple[str, str]
SessionKey: TypeAlias = tuple[str, UUID]

CACHED_MAX: Final = 100_000
HELD_ROWS_MAX: Final = 1_000
"""Of one edge of one tenant in `held_deliveries`: a hostile edge must not fill the table with devices of others."""

_VERSION: Final = "SELECT version, clock_timestamp() AS now FROM device_owners_version"
_DEVICES: Final = """
SELECT owner.tenant_id, owner.device_id, owner.edge_cluster_id,
       (SELECT array_agg((latest.from_edge, latest.backlog_before, latest.backlog_until)) FROM (
          SELECT DISTINCT ON (from_edge) from_edge, backlog_before, backlog_until FROM device_moves AS move
           WHERE move.tenant_id = owner.tenant_id AND move.device_id = owner.device_id AND from_edge IS NOT NULL
           ORDER BY from_edge, moved_at DESC) AS latest) AS former
  FROM unnest($1::text[], $2::text[]) AS given (tenant_id, device_id)
  JOIN device_owners AS owner USING (tenant_id, device_id)
"""
_SESSIONS: Final = """
SELECT given.tenant_id, given.session_id, coalesce(owner.device_id, stored.device_id) AS device_id, owner.edge_cluster_id
  FROM unnest($1::text[], $2::uuid[]) AS given (tenant_id, session_id)
  LEFT JOIN session_owners AS owner ON owner.tenant_id = given.tenant_id AND owner.session_id = given.session_id
  LEFT JOIN weight_sessions AS stored
    ON owner.session_id IS NULL AND stored.tenant_id = given.tenant_id AND stored.id = given.session_id
 WHERE owner.session_id IS NOT NULL OR stored.device_id IS NOT NULL
"""
# All requests claim in the same order, and before they write anything else: two of them never wait for each other in a circle.
_CLAIM_DEVICES: Final = """
INSERT INTO device_owners (tenant_id, device_id, edge_cluster_id, came_by)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) ORDER BY 1, 2
ON CONFLICT DO NOTHING RETURNING tenant_id
"""
_CLAIM_SESSIONS: Final = """
INSERT INTO session_owners (tenant_id, session_id, device_id, edge_cluster_id)
SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) ORDER BY 1, 2
ON CONFLICT DO NOTHING RETURNING tenant_id
"""
_NOTE_HELD: Final = """
INSERT INTO held_deliveries AS known (tenant_id, device_id, edge_cluster_id, owner_edge, code)
SELECT given.* FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
  AS given (tenant_id, device_id, edge_cluster_id, owner_edge, code)
 WHERE EXISTS (SELECT FROM held_deliveries AS one WHERE (one.tenant_id, one.device_id, one.edge_cluster_id)
                      = (given.tenant_id, given.device_id, given.edge_cluster_id))
    OR (SELECT count(*) FROM held_deliveries AS one
         WHERE one.tenant_id = given.tenant_id AND one.edge_cluster_id = given.edge_cluster_id) < $6
 ORDER BY 1, 2, 3
ON CONFLICT (tenant_id, device_id, edge_cluster_id)
DO UPDATE SET last_held_at = now(), owner_edge = excluded.owner_edge, code = excluded.code
"""


class Former(Struct, frozen=True):
    """An edge that had the device, and what it may still deliver."""

    edge_cluster_id: str
    before: datetime
    until: datetime


class Owner(Struct, frozen=True):
    edge_cluster_id: str
    former: tuple[Former, ...] = ()

    def former_of(self, edge_cluster_id: str, now: datetime) -> Former | None:
        """What this edge may still deliver. Of several moves away from it, the last one counts, and is the only one here."""
        return next((one for one in self.former if one.edge_cluster_id == edge_cluster_id and now < one.until), None)


class SessionOwner(Struct, frozen=True):
    """`edge_cluster_id`: who delivered it first; None for a session of an earlier release."""

    device_id: str | None
    edge_cluster_id: str | None


class Hold(Struct, frozen=True):
    """Why an event is held. `device_id` is the device that is in dispute, if it is known."""

    code: str
    message: str
    tenant_id: str
    device_id: str | None
    owner_edge: str


class Known(Struct):
    """The owners that a batch is judged by. Those that it claims itself are added while it is judged."""

    now: datetime
    devices: dict[DeviceKey, Owner]
    sessions: dict[SessionKey, SessionOwner]


class Claims(Struct):
    """What nobody had, and this batch brings. Each with how it came."""

    devices: dict[DeviceKey, tuple[str, str]]
    sessions: dict[SessionKey, SessionOwner]


class Owners:
    """The owners as this replica knows them."""

    def __init__(self) -> None:
        self._version: int | None = None
        self._devices: dict[DeviceKey, Owner] = {}
        self._sessions: dict[SessionKey, SessionOwner] = {}

    async def judge(self, connection: Connection, candidates: "Iterable[Candidate]") -> "dict[tuple[str, UUID], Hold]":
        """Which of these are held, by their keys; what nobody had belongs to their edge from the commit on.

        In the caller's transaction, before it writes anything else."""
        candidates = list(candidates)
        held, claims = judge(candidates, await self._known(connection, candidates))
        while not await _claim(connection, claims):
            # Another edge was faster, and its transaction has ended: its row is there now. So are rows of ours, which may not be
            # committed: nothing of this is kept in memory.
            held, claims = judge(candidates, await Owners()._known(connection, candidates))
        await _note(connection, candidates, held)
        return held

    async def _known(self, connection: Connection, candidates: "Sequence[Candidate]") -> Known:
        row = await connection.fetchrow(_VERSION)
        assert row is not None  # noqa: S101 - the table always has its one row
        if row["version"] != self._version or len(self._devices) + len(self._sessions) > CACHED_MAX:
            self._devices, self._sessions, self._version = {}, {}, row["version"]
        # As they are now: a request that meets a later version while this one waits begins new ones, and these are forgotten.
        devices, sessions = self._devices, self._sessions
        session_keys = {known for one in candidates if (known := session_key(one)) is not None}
        sessions |= await _sessions(connection, session_keys - sessions.keys())
        known_sessions = {key: sessions[key] for key in session_keys if key in sessions}
        device_keys = {key for one in candidates if (key := device_key(one)) is not None}
        device_keys |= {
            (key[0], owner.device_id) for key, owner in known_sessions.items() if owner.device_id is not None
        }
        devices |= await _devices(connection, device_keys - devices.keys())
        return Known(row["now"], {key: devices[key] for key in device_keys if key in devices}, known_sessions)


async def _devices(connection: Connection, keys: Collection[DeviceKey]) -> dict[DeviceKey, Owner]:
    if not keys:
        return {}
    rows = await connection.fetch(_DEVICES, [key[0] for key in keys], [key[1] for key in keys])
    return {
        (row["tenant_id"], row["device_id"]): Owner(
            row["edge_cluster_id"], tuple(Former(*one) for one in row["former"] or ())
        )
        for row in rows
    }


async def _sessions(connection: Connection, keys: Collection[SessionKey]) -> dict[SessionKey, SessionOwner]:
    if not keys:
        return {}
    rows = await connection.fetch(_SESSIONS, [key[0] for key in keys], [key[1] for key in keys])
    return {
        (row["tenant_id"], row["session_id"]): SessionOwner(row["device_id"], row["edge_cluster_id"]) for row in rows
    }


def device_key(candidate: "Candidate") -> DeviceKey | None:
    envelope = candidate.envelope
    return None if envelope.device_id is None else (envelope.tenant_id, envelope.device_id)


def session_key(candidate: "Candidate") -> SessionKey | None:
    envelope = candidate.envelope
    return None if envelope.session_id is None else (envelope.tenant_id, envelope.session_id)


def judge(candidates: "Iterable[Candidate]", known: Known) -> "tuple[dict[tuple[str, UUID], Hold], Claims]":
    """In the order of the batch: what an event claims, the next one finds claimed. Pure, but that it adds to `known`."""
    held: dict[tuple[str, UUID], Hold] = {}
    claims = Claims({}, {})
    for candidate in candidates:
        hold = _session_hold(candidate, known) or _device_hold(candidate, known)
        if hold is not None:
            held[candidate.key] = hold
        else:
            _add_claims(candidate, known, claims)
    return held, claims


def _device_hold(candidate: "Candidate", known: Known) -> Hold | None:
    key = device_key(candidate)
    owner = None if key is None else known.devices.get(key)
    if key is None or owner is None or owner.edge_cluster_id == candidate.edge_cluster_id:
        return None
    tenant_id, device_id = key
    former = owner.former_of(candidate.edge_cluster_id, known.now)
    if former is None:
        return _hold(DEVICE_OF_ANOTHER_EDGE, candidate, device_id, owner.edge_cluster_id)
    if candidate.envelope.occurred_at < former.before or _has_begun_session(candidate, known):
        return None
    return Hold(
        DEVICE_MOVED,
        f"device {device_id} was moved to edge {owner.edge_cluster_id}, and this occurred after"
        f" {former.before:%Y-%m-%dT%H:%M:%SZ}:"
        f" farmiq device move {device_id} --to {owner.edge_cluster_id} --backlog-before TIME",
        tenant_id,
        device_id,
        owner.edge_cluster_id,
    )


def _session_hold(candidate: "Candidate", known: Known) -> Hold | None:
    key = session_key(candidate)
    session = None if key is None else known.sessions.get(key)
    if key is None or session is None:
        return None
    owner = None if session.device_id is None else known.devices.get((key[0], session.device_id))
    owner_edge = session.edge_cluster_id if owner is None else owner.edge_cluster_id
    if owner_edge is None or owner_edge == candidate.edge_cluster_id:
        return None
    if owner is not None and owner.former_of(candidate.edge_cluster_id, known.now) is not None:
        # Of this very session or of an earlier time, as `_device_hold` goes by; the session's device is the one that was moved.
        is_early = candidate.envelope.device_id == session.device_id
        if is_early or _has_begun_session(candidate, known):
            return None
    return _hold(SESSION_OF_ANOTHER_EDGE, candidate, session.device_id, owner_edge)


def _has_begun_session(candidate: "Candidate", known: Known) -> bool:
    """Its edge delivered the session's first event: it may finish what it began, also after the device was moved."""
    key = session_key(candidate)
    session = None if key is None else known.sessions.get(key)
    return session is not None and session.edge_cluster_id == candidate.edge_cluster_id


def _hold(code: str, candidate: "Candidate", device_id: str | None, owner_edge: str) -> Hold:
    envelope, edge = candidate.envelope, candidate.edge_cluster_id
    if code == DEVICE_OF_ANOTHER_EDGE:
        subject = f"device {device_id}"
    else:
        subject = f"weigh session {envelope.session_id}" + (f" of device {device_id}" if device_id else "")
    command = f": farmiq device move {device_id} --to {edge}" if device_id else ""
    message = f"{subject} belongs to edge {owner_edge}, and edge {edge} sends of it{command}"
    return Hold(code, message, envelope.tenant_id, device_id, owner_edge)


def _add_claims(candidate: "Candidate", known: Known, claims: Claims) -> None:
    device, session = device_key(candidate), session_key(candidate)
    if device is not None and device not in known.devices:
        is_registration = candidate.envelope.event_type == event_types.DEVICE_REGISTERED
        claims.devices[device] = (candidate.edge_cluster_id, "registration" if is_registration else "delivery")
        known.devices[device] = Owner(candidate.edge_cluster_id)
    if session is not None and session not in known.sessions:
        claims.sessions[session] = SessionOwner(candidate.envelope.device_id, candidate.edge_cluster_id)
        known.sessions[session] = claims.sessions[session]


async def _claim(connection: Connection, claims: Claims) -> bool:
    """False when somebody else has one of them: waited for, and committed."""
    claimed = True
    if claims.devices:
        keys, values = claims.devices.keys(), claims.devices.values()
        rows = await connection.fetch(
            _CLAIM_DEVICES,
            [tenant_id for tenant_id, _ in keys],
            [device_id for _, device_id in keys],
            [edge for edge, _ in values],
            [came_by for _, came_by in values],
        )
        claimed = len(rows) == len(claims.devices)
    if claimed and claims.sessions:
        rows = await connection.fetch(
            _CLAIM_SESSIONS,
            [tenant_id for tenant_id, _ in claims.sessions],
            [session_id for _, session_id in claims.sessions],
            [owner.device_id for owner in claims.sessions.values()],
            [owner.edge_cluster_id for owner in claims.sessions.values()],
        )
        claimed = len(rows) == len(claims.sessions)
    return claimed


async def _note(
    connection: Connection, candidates: "Iterable[Candidate]", held: "Mapping[tuple[str, UUID], Hold]"
) -> None:
    edge_of = {candidate.key: candidate.edge_cluster_id for candidate in candidates}
    rows = {
        (hold.tenant_id, hold.device_id or "", edge_of[key]): (hold.owner_edge, hold.code) for key, hold in held.items()
    }
    if rows:
        await connection.execute(
            _NOTE_HELD,
            *([key[place] for key in rows] for place in range(3)),
            *([value[place] for value in rows.values()] for place in range(2)),
            HELD_ROWS_MAX,
        )

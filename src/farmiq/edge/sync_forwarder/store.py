"""Every statement on `sync_state`: one row a tenant, shared by all replicas."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts.sync import CloudEpoch
from farmiq.edge.sync_forwarder.breaker import Breaker
from farmiq.edge.sync_forwarder.cloud_epochs import KnownEpoch
from farmiq.edge.sync_forwarder.intake import UNSURE
from farmiq.edge.telemetry_timeseries.rebuilding import Lost, Position
from farmiq.kit.due_times import has_gone_by, is_due
from farmiq.kit.errors import Transient
from farmiq.kit.postgres import Connection
from farmiq.outbox.resend import BEHIND

REBUILT_WAITING_MAX: Final = 500
"""Events of a tenant that were sent behind all others and wait: with so many, no more are made anew."""

_IS_OVER: Final = f"coalesce({is_due('paused_until')}, true)"
_BREAKERS: Final = f"""
SELECT tenant_id, consecutive_failures, NOT {_IS_OVER} AS is_paused
FROM sync_state WHERE tenant_id = ANY ($1)
"""  # noqa: S608 - the condition is the constant above
# Whoever moves `paused_until` on has the probe; the others see a pause. A prober that dies leaves a pause that ends.
_TAKE_PROBE: Final = f"""
UPDATE sync_state SET paused_until = clock_timestamp() + make_interval(secs => $2)
WHERE tenant_id = $1 AND ($3 OR {_IS_OVER})
"""  # noqa: S608 - as above
_ANSWERED: Final = """
INSERT INTO sync_state AS s (tenant_id, last_sent_batch_id, last_acked_event_id, last_acked_at, last_error_code, last_error_at,
                             unreported_sent, unreported_acked, unreported_since)
VALUES ($1, $2, $3, CASE WHEN $3::uuid IS NOT NULL THEN clock_timestamp() END,
        $4, CASE WHEN $4::text IS NOT NULL THEN clock_timestamp() END,
        $5, $6, CASE WHEN $5::bigint > 0 THEN clock_timestamp() END)
ON CONFLICT (tenant_id) DO UPDATE SET
  consecutive_failures = 0, paused_until = NULL, last_sent_batch_id = excluded.last_sent_batch_id,
  last_acked_event_id = coalesce(excluded.last_acked_event_id, s.last_acked_event_id),
  last_acked_at = coalesce(excluded.last_acked_at, s.last_acked_at),
  last_error_code = coalesce(excluded.last_error_code, s.last_error_code),
  last_error_at = coalesce(excluded.last_error_at, s.last_error_at),
  unreported_sent = s.unreported_sent + excluded.unreported_sent,
  unreported_acked = s.unreported_acked + excluded.unreported_acked,
  unreported_since = coalesce(s.unreported_since, excluded.unreported_since)
RETURNING cloud_epoch AS epoch, heard_answer AS answer, heard_token AS token
"""
_HEARD: Final = """
UPDATE sync_state SET
  cloud_answer = greatest(cloud_answer, $2), heard_answer = $3, heard_token = $4, cloud_heard_at = clock_timestamp()
WHERE tenant_id = $1
"""
_KNOWN: Final = (
    "SELECT cloud_epoch AS epoch, heard_answer AS answer, heard_token AS token FROM sync_state WHERE tenant_id = $1"
)
# The first epoch that is ever heard of has nothing to make good, unless the cloud itself says so. `resend_to` keeps what is
# acknowledged from now on out of it. A resending that has not ended is part of the new one.
_BEGIN_EPOCH: Final = """
UPDATE sync_state AS s SET
  cloud_epoch = $2, cloud_began_at = $3, cloud_answer = greatest(cloud_answer, $4), cloud_heard_at = clock_timestamp(),
  heard_answer = coalesce($4, 0), heard_token = $7,
  resend_from = CASE WHEN due.is_due THEN least(resend_from, coalesce($5, 0)) END,
  resend_to = CASE WHEN due.is_due THEN greatest(resend_to, cloud_answer) END,
  resend_after = CASE WHEN due.is_due THEN '00000000-0000-0000-0000-000000000000'::uuid END,
  rebuild_device = NULL, rebuild_at = NULL, rebuild_id = NULL
FROM (SELECT cloud_epoch IS NOT NULL OR resend_to IS NOT NULL OR $6 AS is_due FROM sync_state WHERE tenant_id = $1) AS due
WHERE s.tenant_id = $1
"""
_LOCK_RESENDING: Final = """
SELECT tenant_id, resend_from AS answers_from, resend_to AS answers_to, resend_after AS after
FROM sync_state WHERE resend_to IS NOT NULL AND rebuild_device IS NULL
ORDER BY tenant_id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
# What is made anew takes room: no more of it than the cloud takes. The row stays free meanwhile: what the cloud answers has to be
# written there, and the rows of a device may take minutes.
_LOCK_REBUILDING: Final = """
SELECT tenant_id, cloud_epoch, rebuild_device, rebuild_at, rebuild_id FROM sync_state AS s
WHERE rebuild_device IS NOT NULL AND $1 > (
  SELECT count(*) FROM (SELECT FROM sync_outbox AS o WHERE o.status = 'pending' AND NOT o.parked
                        AND o.tenant_id = s.tenant_id AND o.priority <= $2 LIMIT $1) AS waiting)
  AND pg_try_advisory_xact_lock(hashtext('farmiq.rebuild'), hashtext(tenant_id))
ORDER BY tenant_id LIMIT 1
"""
_BEGIN_REBUILDING: Final = """
UPDATE sync_state SET rebuild_device = $2, rebuild_at = $3, rebuild_id = $4 WHERE tenant_id = $1
"""
_STILL_THERE: Final = "tenant_id = $1 AND (rebuild_device, rebuild_at, rebuild_id, cloud_epoch) = ($2, $3, $4, $5)"
_NOTE_REBUILT: Final = f"""
UPDATE sync_state SET rebuild_device = $6, rebuild_at = $7, rebuild_id = $8 WHERE {_STILL_THERE}
"""  # noqa: S608 - the condition is a constant
_END_REBUILDING: Final = f"""
UPDATE sync_state SET
  resend_from = NULL, resend_to = NULL, resend_after = NULL, rebuild_device = NULL, rebuild_at = NULL, rebuild_id = NULL
WHERE {_STILL_THERE}
"""  # noqa: S608 - as above
_NOTE_RESENT: Final = "UPDATE sync_state SET resend_after = $2 WHERE tenant_id = $1"
_END_RESENDING: Final = """
UPDATE sync_state SET resend_from = NULL, resend_to = NULL, resend_after = NULL WHERE tenant_id = $1
"""
# A cloud without epochs can't say that it went back.
# The rows are held: as long as the caller deletes, no epoch begins that wants what it deletes.
_UNSURE: Final = f"""
SELECT tenant_id, {UNSURE.format(state="sync_state")} AS is_unsure FROM sync_state ORDER BY tenant_id FOR SHARE
"""  # noqa: S608 - a constant
# While events wait, the one probe of a pause asks. A pause that has ended without one has nothing to send.
_UNHEARD: Final = f"""
SELECT tenant_id FROM sync_state
WHERE cloud_epoch IS NOT NULL AND (consecutive_failures = 0 OR {_IS_OVER})
  AND (cloud_heard_at IS NULL OR abs(extract(epoch FROM clock_timestamp() - cloud_heard_at)) >= $1)
ORDER BY tenant_id
"""  # noqa: S608 - as above
# The old values are the report: they are read under the lock that resets them. A tenant whose row is being written just now
# has its turn at the next look.
_TAKE_REPORTS: Final = f"""
WITH due AS (
  SELECT tenant_id, last_sent_batch_id, unreported_sent, unreported_acked FROM sync_state
  WHERE {has_gone_by("unreported_since", "make_interval(secs => $1)")} FOR UPDATE SKIP LOCKED)
UPDATE sync_state AS s SET unreported_sent = 0, unreported_acked = 0, unreported_since = NULL
FROM due WHERE s.tenant_id = due.tenant_id
RETURNING due.tenant_id, due.last_sent_batch_id AS batch_id, due.unreported_sent AS sent_count,
          due.unreported_acked AS acked_count
"""  # noqa: S608 - as above
_LOCK: Final = f"""
INSERT INTO sync_state AS s (tenant_id) VALUES ($1) ON CONFLICT (tenant_id) DO UPDATE SET tenant_id = excluded.tenant_id
RETURNING consecutive_failures, NOT {_IS_OVER} AS is_paused
"""  # noqa: S608 - as above
_PAUSE: Final = f"""
UPDATE sync_state SET
  consecutive_failures = $2, last_sent_batch_id = $4, last_error_code = $5, last_error_at = clock_timestamp(),
  paused_until = CASE WHEN $6 THEN clock_timestamp() + make_interval(secs => $3)
                 ELSE greatest(CASE WHEN NOT {_IS_OVER} THEN paused_until END,
                               clock_timestamp() + make_interval(secs => $3)) END
WHERE tenant_id = $1
"""  # noqa: S608 - as above
_NEXT_PROBE: Final = f"""
SELECT extract(epoch FROM min(paused_until) - clock_timestamp())::float8
FROM sync_state WHERE NOT {_IS_OVER}
"""  # noqa: S608 - as above
_PAUSED: Final = """
SELECT coalesce(last_error_code, '') AS code, count(*) AS tenants FROM sync_state
WHERE consecutive_failures > 0 GROUP BY 1
"""
_REFUSED: Final = """
SELECT tenant_id FROM sync_state
WHERE consecutive_failures > 0 AND last_error_code = 'HTTP_403' AND ($1::text IS NULL OR tenant_id = $1)
ORDER BY tenant_id LIMIT 100
"""
_MARKS: Final = "SELECT max(last_acked_at) AS last_success_at, max(last_error_at) AS last_error_at FROM sync_state"
_LINKS: Final = """
SELECT tenant_id, consecutive_failures, paused_until, last_acked_at, last_error_code, last_error_at
FROM sync_state ORDER BY tenant_id
"""


class Marks(Struct, frozen=True):
    last_success_at: datetime | None
    last_error_at: datetime | None


class Link(Struct, frozen=True):
    """A tenant's way to the cloud. It is closed for as long as `paused_until` is in the future."""

    tenant_id: str
    consecutive_failures: int
    paused_until: datetime | None
    last_acked_at: datetime | None
    last_error_code: str | None
    last_error_at: datetime | None


class Tally(Struct, frozen=True):
    """Events of one answered request: how many it held, and how many of them the cloud has now."""

    sent_count: int
    acked_count: int


class Resending(Struct, frozen=True, kw_only=True):
    """Events that an answer later than `answers_from`, up to `answers_to`, has acknowledged go out again; those with an id up to
    `after` have been looked at."""

    tenant_id: str
    answers_from: int
    answers_to: int
    after: UUID


class Rebuilding(Struct, frozen=True):
    """What the outbox no longer has was made anew up to `after`."""

    lost: Lost
    after: Position

    @property
    def arguments(self) -> tuple[str, str, datetime, UUID, UUID]:
        return (self.lost.tenant_id, self.after.device_id, self.after.at, self.after.row_id, self.lost.cloud_epoch)


class RebuildingEnded(Transient):
    """Another epoch of the cloud began while a page was made: everything is sent again from the beginning."""

    code = "rebuilding_ended"


class Report(Struct, frozen=True, kw_only=True):
    """What a tenant's requests added up to since the last report."""

    tenant_id: str
    batch_id: str
    sent_count: int
    acked_count: int


async def breakers(connection: Connection, tenant_ids: Sequence[str]) -> dict[str, Breaker]:
    rows = await connection.fetch(_BREAKERS, list(tenant_ids))
    return {row["tenant_id"]: Breaker(row["consecutive_failures"], row["is_paused"]) for row in rows}


async def take_probe(connection: Connection, tenant_id: str, *, seconds: float, is_forced: bool) -> bool:
    """True when this replica may send the one batch that finds out whether the cloud is back."""
    return await connection.execute(_TAKE_PROBE, tenant_id, seconds, is_forced) == "UPDATE 1"


async def record_answer(
    connection: Connection,
    tenant_id: str,
    *,
    batch_id: str,
    last_acked_id: UUID | None,
    error_code: str | None,
    tally: Tally,
) -> KnownEpoch:
    """The cloud answered, whatever it said about the events: the breaker closes. Returns which epoch of it was known until now;
    until the end of the transaction nobody else changes that."""
    row = await connection.fetchrow(
        _ANSWERED, tenant_id, batch_id, last_acked_id, error_code, tally.sent_count, tally.acked_count
    )
    assert row is not None  # noqa: S101 - an upsert that updates always returns its row
    return KnownEpoch(row["epoch"], row["answer"], row["token"])


async def record_heard(connection: Connection, tenant_id: str, answer: int | None, known: KnownEpoch) -> None:
    """The cloud has given this answer under the epoch that is known."""
    await connection.execute(_HEARD, tenant_id, answer, known.answer, known.token)


async def known_epoch(connection: Connection, tenant_id: str) -> KnownEpoch:
    row = await connection.fetchrow(_KNOWN, tenant_id)
    return KnownEpoch() if row is None else KnownEpoch(row["epoch"], row["answer"], row["token"])


async def begin_epoch(connection: Connection, tenant_id: str, said: CloudEpoch) -> None:
    """From now on this epoch of the cloud counts, and what it lacks is to be sent again."""
    is_due = said.resend_since is not None or said.resend_after is not None
    await connection.execute(
        _BEGIN_EPOCH,
        tenant_id,
        said.epoch,
        said.began_at,
        said.answer,
        said.resend_after,
        is_due,
        said.tokens[-1] if said.tokens else None,
    )


async def unsure_tenants(connection: Connection) -> list[str]:
    """Of whom nobody knows whether the cloud still has what it acknowledged: it has not been heard for a day, or it has lost
    something, and that is still being sent again. That stays so until the end of the caller's transaction."""
    return [row["tenant_id"] for row in await connection.fetch(_UNSURE) if row["is_unsure"]]


async def unheard_tenants(connection: Connection, *, seconds: float) -> list[str]:
    """For whom the cloud has said nothing for that long, although it can be reached as far as is known."""
    return [row["tenant_id"] for row in await connection.fetch(_UNHEARD, seconds)]


async def lock_resending(connection: Connection) -> Resending | None:
    """Of a tenant that no other replica is at."""
    row = await connection.fetchrow(_LOCK_RESENDING)
    return None if row is None else Resending(**dict(row.items()))


async def note_resent(connection: Connection, tenant_id: str, after: UUID) -> None:
    await connection.execute(_NOTE_RESENT, tenant_id, after)


async def begin_rebuilding(connection: Connection, tenant_id: str, position: Position) -> None:
    await connection.execute(_BEGIN_REBUILDING, tenant_id, position.device_id, position.at, position.row_id)


async def lock_rebuilding(connection: Connection) -> Rebuilding | None:
    """Of a tenant that no other replica is at, and whose events of that kind do not wait for the cloud."""
    row = await connection.fetchrow(_LOCK_REBUILDING, REBUILT_WAITING_MAX, BEHIND)
    if row is None:
        return None
    after = Position(row["rebuild_device"], row["rebuild_at"], row["rebuild_id"])
    return Rebuilding(Lost(row["tenant_id"], row["cloud_epoch"]), after)


async def note_rebuilt(connection: Connection, task: Rebuilding, position: Position) -> None:
    given = (*task.arguments, position.device_id, position.at, position.row_id)
    if await connection.execute(_NOTE_REBUILT, *given) != "UPDATE 1":
        raise RebuildingEnded(f"another epoch of the cloud began for tenant {task.lost.tenant_id}")


async def end_rebuilding(connection: Connection, task: Rebuilding) -> None:
    if await connection.execute(_END_REBUILDING, *task.arguments) != "UPDATE 1":
        raise RebuildingEnded(f"another epoch of the cloud began for tenant {task.lost.tenant_id}")


async def end_resending(connection: Connection, tenant_id: str) -> None:
    await connection.execute(_END_RESENDING, tenant_id)


async def take_reports(connection: Connection, *, older_than_seconds: float) -> list[Report]:
    """Of every tenant whose first unreported request is that old. Counting begins anew: append them in this transaction."""
    return [Report(**dict(row.items())) for row in await connection.fetch(_TAKE_REPORTS, older_than_seconds)]


async def paused_tenants(connection: Connection) -> dict[str, int]:
    """How many tenants' breakers are not closed, by what the last request ran into."""
    return {row["code"]: row["tenants"] for row in await connection.fetch(_PAUSED)}


async def refused_tenants(connection: Connection, tenant_id: str | None = None) -> list[str]:
    """Whose batches the cloud answers with 403: of all tenants, or of one."""
    return [row["tenant_id"] for row in await connection.fetch(_REFUSED, tenant_id)]


async def lock_breaker(connection: Connection, tenant_id: str) -> Breaker:
    """The tenant's breaker as it is now, and nobody else's to change until the end of the transaction."""
    row = await connection.fetchrow(_LOCK, tenant_id)
    assert row is not None  # noqa: S101 - an upsert that updates always returns its row
    return Breaker(row["consecutive_failures"], row["is_paused"])


async def record_pause(
    connection: Connection,
    tenant_id: str,
    *,
    consecutive_failures: int,
    seconds: float,
    batch_id: str,
    error_code: str,
    is_probe: bool,
) -> None:
    """A probe decides the new pause; anybody else can only make it longer."""
    await connection.execute(_PAUSE, tenant_id, consecutive_failures, seconds, batch_id, error_code, is_probe)


async def next_probe_seconds(connection: Connection) -> float | None:
    """How long until the first pause ends; None when nobody pauses."""
    seconds: float | None = await connection.fetchval(_NEXT_PROBE)
    return seconds


async def marks(connection: Connection) -> Marks:
    row = await connection.fetchrow(_MARKS)
    assert row is not None  # noqa: S101 - an aggregate always has its one row
    return Marks(row["last_success_at"], row["last_error_at"])


async def links(connection: Connection) -> list[Link]:
    return [Link(**dict(row.items())) for row in await connection.fetch(_LINKS)]

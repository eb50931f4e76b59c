"""Every statement on `media_transfers` but the one that adds a row, which is `intake`'s."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import asyncpg
from msgspec import Struct

from farmiq.edge.sync_forwarder.intake import follow_again
from farmiq.edge.sync_forwarder.pictures.verdicts import Outcome
from farmiq.kit.due_times import AHEAD, first_due, is_due
from farmiq.kit.postgres import Connection
from farmiq.outbox.verdicts import MESSAGE_LENGTH_MAX

State = Literal["pending", "sending", "sent", "failed"]

COUNTED_MAX: Final = 50_000
"""Above that, a number on a dashboard is told as this one."""

# As in the outbox: the inner query walks the partial index in its own order and stops at the batch.
_CLAIM: Final = f"""
UPDATE media_transfers SET
  state = 'sending', claimed_by = $2, claim_token = claim_token + 1,
  lease_expires_at = clock_timestamp() + make_interval(secs => $3), updated_at = clock_timestamp()
WHERE ctid = ANY (
  {first_due("media_transfers", "state = 'pending' AND tenant_id = $1", "next_attempt_at", then="media_id", limit="$4")})
RETURNING media_id, claim_token, attempt_count, tenant_id, farm_id, barn_id, device_id, session_id, bucket, object_key,
          mime_type, size_bytes, sha256, captured_at, trace_id, stored_size_bytes
"""  # noqa: S608 - the names are ours
# From one tenant's first row to the next tenant's: the cost depends on the number of tenants. Behind a row that waits some may
# stand that a clock ahead has written: they have their turn with it.
_TENANTS: Final = f"""
WITH RECURSIVE head AS (
  (SELECT tenant_id, next_attempt_at FROM media_transfers WHERE state = 'pending'
   ORDER BY tenant_id, next_attempt_at, media_id LIMIT 1)
  UNION ALL
  SELECT later.tenant_id, later.next_attempt_at FROM head CROSS JOIN LATERAL (
    SELECT tenant_id, next_attempt_at FROM media_transfers WHERE state = 'pending' AND tenant_id > head.tenant_id
    ORDER BY tenant_id, next_attempt_at, media_id LIMIT 1) AS later)
SELECT tenant_id, CASE WHEN next_attempt_at > statement_timestamp() + {AHEAD} THEN 0
                       ELSE extract(epoch FROM next_attempt_at - statement_timestamp())::float8 END AS due_seconds FROM head
"""  # noqa: S608 - as above
_EXPIRED: Final = f"""
SELECT media_id, claim_token, attempt_count, tenant_id, object_key FROM media_transfers
WHERE state = 'sending' AND {is_due("coalesce(lease_expires_at, '-infinity')")}
LIMIT $1 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - as above
_RENEW: Final = """
UPDATE media_transfers SET
  lease_expires_at = clock_timestamp() + make_interval(secs => $3), updated_at = clock_timestamp()
WHERE media_id = $1 AND claim_token = $2 AND state = 'sending'
"""
_SETTLE: Final = """
UPDATE media_transfers SET
  state = $3, attempt_count = $4, next_attempt_at = clock_timestamp() + make_interval(secs => $5),
  lease_expires_at = NULL, last_error_code = $6, last_error_message = $7,
  failed_at = CASE WHEN $3 = 'failed' THEN clock_timestamp() END,
  sent_at = CASE WHEN $3 = 'sent' THEN clock_timestamp() END,
  sent_answer = CASE WHEN $3 = 'sent'
                THEN (SELECT cloud_answer FROM sync_state WHERE sync_state.tenant_id = media_transfers.tenant_id) END,
  updated_at = clock_timestamp()
WHERE media_id = $1 AND claim_token = $2 AND state = 'sending'
"""
_CHOSEN: Final = """
state = 'failed' AND ($1::uuid[] IS NULL OR media_id = ANY ($1))
AND ($2::text IS NULL OR tenant_id = $2) AND ($3::text IS NULL OR last_error_code = $3)
"""
_REDRIVE: Final = f"""
UPDATE media_transfers SET
  state = 'pending', attempt_count = 0, next_attempt_at = clock_timestamp(), last_error_code = NULL,
  last_error_message = NULL, failed_at = NULL, updated_at = clock_timestamp()
WHERE {_CHOSEN}
"""  # noqa: S608 - the condition is the constant above
_CHOSEN_COUNT: Final = f"SELECT count(*) FROM media_transfers WHERE {_CHOSEN}"  # noqa: S608 - as above
_SEND_AGAIN: Final = """
UPDATE media_transfers SET
  state = 'pending', attempt_count = 0, next_attempt_at = clock_timestamp(), sent_at = NULL, updated_at = clock_timestamp()
FROM unnest($1::text[], $2::uuid[]) AS wanted (tenant_id, media_id)
WHERE media_transfers.media_id = wanted.media_id AND media_transfers.tenant_id = wanted.tenant_id AND state = 'sent'
"""
_SEND_AGAIN_AFTER: Final = """
UPDATE media_transfers SET
  state = 'pending', attempt_count = 0, next_attempt_at = clock_timestamp(), sent_at = NULL, updated_at = clock_timestamp()
WHERE tenant_id = $1 AND state = 'sent' AND (sent_answer IS NULL OR sent_answer >= $2)
"""
_FAILURES: Final = """
SELECT tenant_id, last_error_code, count(*) AS pictures FROM media_transfers WHERE state = 'failed' GROUP BY 1, 2
"""
_COUNTS: Final = """
SELECT 'pending' AS state, count(*) AS pictures FROM (SELECT FROM media_transfers WHERE state = 'pending' LIMIT $1) AS pending
UNION ALL SELECT 'sending', count(*) FROM (SELECT FROM media_transfers WHERE state = 'sending' LIMIT $1) AS sending
UNION ALL SELECT 'failed', count(*) FROM (SELECT FROM media_transfers WHERE state = 'failed' LIMIT $1) AS failed
"""
_COUNTS_OF_TENANT: Final = _COUNTS.replace(" LIMIT", " AND tenant_id = $2 LIMIT")
_ENTRIES: Final = """
SELECT media_id, tenant_id, farm_id, barn_id, device_id, session_id, object_key, mime_type, size_bytes, captured_at, state,
       attempt_count, next_attempt_at, claimed_by, lease_expires_at, last_error_code, last_error_message, failed_at, sent_at,
       created_at
FROM media_transfers
"""
_WHERE: Final[dict[State | None, str]] = {
    None: "ORDER BY created_at DESC LIMIT $1",
    "pending": "WHERE state = 'pending' ORDER BY tenant_id, next_attempt_at, media_id LIMIT $1",
    "sending": "WHERE state = 'sending' LIMIT $1",
    "sent": "WHERE state = 'sent' ORDER BY sent_at DESC LIMIT $1",
    "failed": "WHERE state = 'failed' ORDER BY tenant_id, failed_at DESC LIMIT $1",
}
# Those of the tenant in the order of its index; else what there is of the tenant among the first of all.
_WHERE_OF_TENANT: Final[dict[State | None, str]] = {
    "pending": "WHERE state = 'pending' AND tenant_id = $2 ORDER BY tenant_id, next_attempt_at, media_id LIMIT $1",
    "failed": "WHERE state = 'failed' AND tenant_id = $2 ORDER BY tenant_id, failed_at DESC LIMIT $1",
}
_AMONG_THE_FIRST: Final = "SELECT * FROM ({rows}) AS looked_at WHERE tenant_id = $2 LIMIT $3"
_NAMED: Final = "WHERE media_id = ANY ($1) ORDER BY media_id"
# As long as the picture is here, the cloud may ask for it: it may have lost it.
_RETIRED: Final = """
state = 'sent' AND sent_at < statement_timestamp() - make_interval(days => $1)
AND NOT EXISTS (SELECT FROM media_objects AS m WHERE m.id = media_transfers.media_id AND m.tenant_id = media_transfers.tenant_id)
"""
_RETIRE: Final = f"""
DELETE FROM media_transfers WHERE (media_id, tenant_id) IN (
  SELECT media_id, tenant_id FROM media_transfers WHERE {_RETIRED} ORDER BY sent_at LIMIT $2)
"""  # noqa: S608 - the condition is the constant above
_RETIRABLE: Final = f"SELECT count(*) FROM media_transfers WHERE {_RETIRED}"  # noqa: S608 - as above


class Claimed(Struct, frozen=True, kw_only=True):
    """The right to settle one row: good for as long as the row carries this token."""

    media_id: UUID
    claim_token: int
    attempt_count: int
    tenant_id: str
    object_key: str


class Transfer(Claimed, frozen=True, kw_only=True):
    farm_id: str
    barn_id: str
    device_id: str
    session_id: UUID | None
    bucket: str
    mime_type: str
    size_bytes: int
    sha256: str
    captured_at: datetime
    trace_id: str | None
    stored_size_bytes: int | None = None

    @property
    def source_size_bytes(self) -> int:
        """Of what lies in the edge's object store."""
        return self.stored_size_bytes or self.size_bytes


class TransferEntry(Struct, frozen=True, kw_only=True):
    """A row as an operator sees it."""

    media_id: UUID
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    session_id: UUID | None
    object_key: str
    mime_type: str
    size_bytes: int
    captured_at: datetime
    state: State
    attempt_count: int
    next_attempt_at: datetime
    claimed_by: str | None
    lease_expires_at: datetime | None
    last_error_code: str | None
    last_error_message: str | None
    failed_at: datetime | None
    sent_at: datetime | None
    created_at: datetime


class Chosen(Struct, frozen=True, kw_only=True):
    """Which of the pictures that were given up. What is None does not matter."""

    ids: list[UUID] | None = None
    tenant_id: str | None = None
    error_code: str | None = None


async def claim(
    connection: Connection, tenant_id: str, *, instance_id: str, lease_seconds: float, limit: int
) -> list[Transfer]:
    """The tenant's next pictures that are due. Rows that another replica is claiming are passed over."""
    rows = await connection.fetch(_CLAIM, tenant_id, instance_id, lease_seconds, limit)
    return [Transfer(**dict(row.items())) for row in rows]


async def due_by_tenant(connection: Connection) -> dict[str, float]:
    """Every tenant whose pictures wait, and how many seconds until the first is due."""
    return {row["tenant_id"]: row["due_seconds"] for row in await connection.fetch(_TENANTS)}


async def lock_expired(connection: Connection, *, limit: int) -> list[Claimed]:
    return [Claimed(**dict(row.items())) for row in await connection.fetch(_EXPIRED, limit)]


async def renew(connection: Connection, transfer: Claimed, *, lease_seconds: float) -> bool:
    """False when somebody took it back."""
    return _count(await connection.execute(_RENEW, transfer.media_id, transfer.claim_token, lease_seconds)) == 1


async def settle(connection: Connection, transfer: Claimed, outcome: Outcome) -> bool:
    """False when the row is no longer ours: it stays as it is."""
    failure = outcome.failure
    tag = await connection.execute(
        _SETTLE,
        transfer.media_id,
        transfer.claim_token,
        outcome.state,
        outcome.attempt_count,
        outcome.delay_seconds,
        failure.code if failure else None,
        failure.message[:MESSAGE_LENGTH_MAX] if failure else None,
    )
    return _count(tag) == 1


async def redrive(connection: Connection, chosen: Chosen) -> int:
    return _count(await connection.execute(_REDRIVE, chosen.ids, chosen.tenant_id, chosen.error_code))


async def send_again(connection: Connection, wanted: Sequence[tuple[str, UUID]]) -> int:
    """Of these tenants' pictures those that count as sent, and those that are here and have no row any more. What is under way or
    was given up stays as it is."""
    tenant_ids, media_ids = [tenant_id for tenant_id, _ in wanted], [media_id for _, media_id in wanted]
    anew = await follow_again(connection, tenant_ids, media_ids)
    return anew + _count(await connection.execute(_SEND_AGAIN, tenant_ids, media_ids))


async def send_again_after(connection: Connection, tenant_id: str, answer: int) -> int:
    """What the cloud got after that answer and may have lost. It is asked first, and says so of those that it has."""
    return _count(await connection.execute(_SEND_AGAIN_AFTER, tenant_id, answer))


async def count_chosen(connection: Connection, chosen: Chosen) -> int:
    return int(await connection.fetchval(_CHOSEN_COUNT, chosen.ids, chosen.tenant_id, chosen.error_code))


async def failures(connection: Connection) -> dict[tuple[str, str], int]:
    """How many pictures of each tenant were given up, by the reason's code."""
    rows = await connection.fetch(_FAILURES)
    return {(row["tenant_id"], row["last_error_code"] or ""): row["pictures"] for row in rows}


async def counts(connection: Connection, tenant_id: str | None = None) -> dict[str, int]:
    """Of each state in which something is still to be done."""
    if tenant_id is None:
        rows = await connection.fetch(_COUNTS, COUNTED_MAX)
    else:
        rows = await connection.fetch(_COUNTS_OF_TENANT, COUNTED_MAX, tenant_id)
    return {row["state"]: row["pictures"] for row in rows}


async def entries(
    connection: Connection, state: State | None, *, limit: int, tenant_id: str | None = None
) -> list[TransferEntry]:
    if tenant_id is None:
        rows = await connection.fetch(_ENTRIES + _WHERE[state], limit)
    elif state in _WHERE_OF_TENANT:
        rows = await connection.fetch(_ENTRIES + _WHERE_OF_TENANT[state], limit, tenant_id)
    else:
        among = _AMONG_THE_FIRST.format(rows=_ENTRIES + _WHERE[state])
        rows = await connection.fetch(among, COUNTED_MAX, tenant_id, limit)
    return [_entry(row) for row in rows]


async def named(connection: Connection, media_ids: Sequence[UUID]) -> list[TransferEntry]:
    return [_entry(row) for row in await connection.fetch(_ENTRIES + _NAMED, list(media_ids))]


async def retire(connection: Connection, *, retention_days: int, limit: int = 1000) -> int:
    """Rows of pictures that have been in the cloud for that long and are not here any more. Returns how many it removed."""
    return _count(await connection.execute(_RETIRE, retention_days, limit))


async def count_retirable(connection: Connection, *, retention_days: int) -> int:
    return int(await connection.fetchval(_RETIRABLE, retention_days))


def _entry(row: asyncpg.Record) -> TransferEntry:
    return TransferEntry(**dict(row.items()))


def _count(tag: str) -> int:
    return int(tag.rpartition(" ")[2])

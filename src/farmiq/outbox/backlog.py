"""What an operator asks of the outbox: how much, how old, which ones, and when the next row is due."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

import asyncpg
from msgspec import Struct

from farmiq.kit.postgres import Connection

Status = Literal["pending", "claimed", "sending", "acked", "dlq", "failed"]

COUNTED_MAX: Final = 50_000
"""Rows that are counted one by one: five times what the documented alerts ask for. A longer backlog is told from the size that
the last VACUUM or ANALYZE wrote down for the same index: a number on a dashboard must not cost as much as the backlog is long."""

# Each number comes from the partial index that holds exactly the rows it counts, and none from the table.
_COUNTS: Final = """
SELECT counted.name, counted.rows, greatest(size.reltuples, 0)::bigint AS estimate FROM (
  SELECT 'sync_outbox_claimable' AS name, count(*) AS rows
  FROM (SELECT FROM sync_outbox WHERE status = 'pending' AND NOT parked LIMIT $1) AS claimable
  UNION ALL SELECT 'sync_outbox_parked', count(*)
  FROM (SELECT FROM sync_outbox WHERE status = 'pending' AND parked LIMIT $1) AS parked
  UNION ALL SELECT 'sync_outbox_in_flight', count(*)
  FROM (SELECT FROM sync_outbox WHERE status IN ('claimed', 'sending') LIMIT $1) AS in_flight
  UNION ALL SELECT 'sync_outbox_dead_letters', count(*)
  FROM (SELECT FROM sync_outbox WHERE status = 'dlq' LIMIT $1) AS dead) AS counted
JOIN pg_class AS size ON size.oid = to_regclass(counted.name)
"""
# The oldest row of each tenant and priority stands first in the claim index: this steps from one to the next instead of
# reading the backlog. Parked rows are in no order of age: of those that are due first, as many are read as are counted. Rows in
# flight count too: the cloud does not have them, and a request without a response holds them for minutes.
_OLDEST: Final = """
WITH RECURSIVE head AS (
  (SELECT tenant_id, priority, coalesce(occurred_at, created_at) AS since FROM sync_outbox
   WHERE status = 'pending' AND NOT parked
   ORDER BY tenant_id, priority DESC, occurred_at, id LIMIT 1)
  UNION ALL
  SELECT following.tenant_id, following.priority, following.since FROM head CROSS JOIN LATERAL (
    (SELECT tenant_id, priority, coalesce(occurred_at, created_at) AS since, 1 AS place FROM sync_outbox
     WHERE status = 'pending' AND NOT parked AND tenant_id = head.tenant_id AND priority < head.priority
     ORDER BY tenant_id, priority DESC, occurred_at, id LIMIT 1)
    UNION ALL
    (SELECT tenant_id, priority, coalesce(occurred_at, created_at) AS since, 2 AS place FROM sync_outbox
     WHERE status = 'pending' AND NOT parked AND tenant_id > head.tenant_id
     ORDER BY tenant_id, priority DESC, occurred_at, id LIMIT 1)
    ORDER BY place LIMIT 1) AS following)
SELECT coalesce(greatest(extract(epoch FROM clock_timestamp() - least(
  (SELECT min(since) FROM head),
  (SELECT min(since) FROM (
     SELECT coalesce(occurred_at, created_at) AS since FROM sync_outbox
     WHERE status = 'pending' AND parked ORDER BY next_attempt_at LIMIT $1) AS parked),
  (SELECT min(since) FROM (
     SELECT coalesce(occurred_at, created_at) AS since FROM sync_outbox
     WHERE status IN ('claimed', 'sending') LIMIT $1) AS in_flight))), 0), 0)::float8
"""
_ENTRIES: Final = """
SELECT id, tenant_id, farm_id, barn_id, device_id, session_id, event_type, occurred_at, trace_id, payload_size_bytes,
       status, priority, attempt_count, last_attempt_at, next_attempt_at, claimed_by, claimed_at, lease_expires_at,
       last_error_code, last_error_message, failed_at, dlq_reason, created_at, updated_at
FROM sync_outbox
"""
# The newest by their times, and not by their ids, which anybody may choose. No index is in that order. The summary by time leads
# to the last day, which is enough where enough happened in it; else COUNTED_MAX rows at the end of the ids are looked at.
_NEWEST: Final = "ORDER BY occurred_at DESC NULLS LAST, id LIMIT $1"
_OF_LAST_DAY: Final = "WHERE occurred_at >= now() - interval '1 day' {also} " + _NEWEST
_AT_THE_END: Final = "WHERE true {also} ORDER BY id DESC LIMIT $1"
_BY_TIME: Final[Mapping[str | None, str]] = {None: "", "acked": "AND status = 'acked'"}
# The conditions are written as the partial indexes have them, so that each list starts where its index starts.
_WHERE: Final[Mapping[str | None, str]] = {
    "pending": "WHERE status = 'pending' AND NOT parked ORDER BY tenant_id, priority DESC, occurred_at, id LIMIT $1",
    "parked": "WHERE status = 'pending' AND parked ORDER BY next_attempt_at LIMIT $1",
    "claimed": "WHERE status IN ('claimed', 'sending') AND status = 'claimed' LIMIT $1",
    "sending": "WHERE status IN ('claimed', 'sending') AND status = 'sending' LIMIT $1",
    "dlq": "WHERE status = 'dlq' ORDER BY tenant_id, failed_at DESC LIMIT $1",
    "failed": "WHERE status = 'failed' ORDER BY occurred_at DESC NULLS LAST LIMIT $1",
}
# Where an index begins with the tenant, its rows of one tenant; else what there is of the tenant among the first of all.
_WHERE_OF_TENANT: Final[Mapping[str | None, str]] = {
    "pending": (
        "WHERE status = 'pending' AND NOT parked AND tenant_id = $2"
        " ORDER BY tenant_id, priority DESC, occurred_at, id LIMIT $1"
    ),
    "dlq": "WHERE status = 'dlq' AND tenant_id = $2 ORDER BY tenant_id, failed_at DESC LIMIT $1",
    "failed": "WHERE status = 'failed' AND tenant_id = $2 ORDER BY tenant_id, occurred_at LIMIT $1",
}
_AMONG_THE_FIRST: Final = "SELECT * FROM ({rows}) AS looked_at WHERE tenant_id = $2 LIMIT $3"
_WAITING_OF_TENANT: Final = """
SELECT count(*) FROM (
  (SELECT FROM sync_outbox WHERE status = 'pending' AND NOT parked AND tenant_id = $2 LIMIT $1)
  UNION ALL (SELECT FROM (
    SELECT tenant_id FROM sync_outbox WHERE status = 'pending' AND parked ORDER BY next_attempt_at LIMIT $1
  ) AS parked WHERE tenant_id = $2)
  LIMIT $1) AS waiting
"""
_DUE: Final = """
SELECT extract(epoch FROM least(
  (SELECT min(next_attempt_at) FROM sync_outbox WHERE status = 'pending' AND parked),
  (SELECT min(coalesce(lease_expires_at, clock_timestamp())) FROM sync_outbox
   WHERE status IN ('claimed', 'sending'))) - clock_timestamp())::float8
"""


class Backlog(Struct, frozen=True):
    pending_count: int
    claimed_count: int
    dlq_count: int
    oldest_pending_age_seconds: float


class Entry(Struct, frozen=True, kw_only=True):
    """A row as an operator sees it. The payload stays out: it may be large, and nobody needs it to see what is stuck."""

    id: UUID
    tenant_id: str
    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    session_id: UUID | None
    event_type: str
    occurred_at: datetime | None
    trace_id: str | None
    payload_size_bytes: int | None
    status: Status
    priority: int
    attempt_count: int
    last_attempt_at: datetime | None
    next_attempt_at: datetime
    claimed_by: str | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    last_error_code: str | None
    last_error_message: str | None
    failed_at: datetime | None
    dlq_reason: str | None
    created_at: datetime
    updated_at: datetime


async def measure(connection: Connection, *, counted_max: int = COUNTED_MAX) -> Backlog:
    """Counts, exact up to `counted_max` of a kind and estimated above, and the age of the oldest event that the cloud lacks."""
    async with connection.transaction():
        # Behind years of acknowledged rows a planner that hopes to meet the first ones soon reads the whole table.
        await connection.execute("SET LOCAL enable_seqscan = off")
        rows = await connection.fetch(_COUNTS, counted_max)
        oldest_seconds = await connection.fetchval(_OLDEST, counted_max)
    count = {
        row["name"]: row["rows"] if row["rows"] < counted_max else max(row["rows"], row["estimate"]) for row in rows
    }
    return Backlog(
        pending_count=count["sync_outbox_claimable"] + count["sync_outbox_parked"],
        claimed_count=count["sync_outbox_in_flight"],
        dlq_count=count["sync_outbox_dead_letters"],
        oldest_pending_age_seconds=oldest_seconds,
    )


async def entries(
    connection: Connection, status: Status | None, *, limit: int, tenant_id: str | None = None
) -> list[Entry]:
    """Rows of one status, or the newest of all; of one tenant, or of all. Pending rows come in the order of the claim, and parked
    ones after them. Of rows that no index keeps by tenant, COUNTED_MAX are looked at."""
    found = await _list(connection, status, limit, tenant_id)
    if status == "pending" and len(found) < limit:
        found += await _list(connection, "parked", limit - len(found), tenant_id)
    return found


async def dead_letters(connection: Connection, tenant_id: str | None, *, limit: int) -> list[Entry]:
    """The latest first; of one tenant, or of one after the other."""
    return await _list(connection, "dlq", limit, tenant_id)


async def waiting_of(connection: Connection, tenant_id: str, *, counted_max: int) -> int:
    """How many events of a tenant wait to be sent; no more than `counted_max` are counted."""
    return int(await connection.fetchval(_WAITING_OF_TENANT, counted_max, tenant_id))


async def next_due_seconds(connection: Connection) -> float | None:
    """How long until a parked row is due or a lease ends, negative when one already is; None when there is neither."""
    due: float | None = await connection.fetchval(_DUE)
    return due


async def _list(connection: Connection, which: str | None, limit: int, tenant_id: str | None = None) -> list[Entry]:
    if which is None or which in _BY_TIME:
        rows = await _newest(connection, _BY_TIME[which], limit, tenant_id)
    elif tenant_id is None:
        rows = await connection.fetch(_ENTRIES + _WHERE[which], limit)
    elif which in _WHERE_OF_TENANT:
        rows = await connection.fetch(_ENTRIES + _WHERE_OF_TENANT[which], limit, tenant_id)
    else:
        among = _AMONG_THE_FIRST.format(rows=_ENTRIES + _WHERE[which])
        rows = await connection.fetch(among, COUNTED_MAX, tenant_id, limit)
    return [Entry(**dict(row.items())) for row in rows]


async def _newest(connection: Connection, also: str, limit: int, tenant_id: str | None) -> list[asyncpg.Record]:
    tenant = () if tenant_id is None else (tenant_id,)
    of_tenant = f"{also} AND tenant_id = $2" if tenant else also
    recent = await connection.fetch(_ENTRIES + _OF_LAST_DAY.format(also=of_tenant), limit, *tenant)
    if len(recent) == limit:
        return recent
    among = _ENTRIES + _AT_THE_END.format(also=also).replace("$1", "$2")
    mine = "WHERE tenant_id = $3" if tenant else ""
    statement = f"SELECT * FROM ({among}) AS looked_at {mine} {_NEWEST}"  # noqa: S608 - our own constants
    return await connection.fetch(statement, limit, COUNTED_MAX, *tenant)

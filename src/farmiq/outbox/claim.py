"""Out of the outbox: one tenant's next events, for one forwarder, for the time of a lease."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.kit.due_times import is_due
from farmiq.kit.postgres import Connection
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.verdicts import LEASE_EXPIRED

# The inner query walks `sync_outbox_claimable` in its own order and stops after the batch. `= ANY (ARRAY(...))` makes sure
# that it runs once: as a join, stale statistics could make the planner run it for every row. By ctid, because the rows are
# locked and cannot move: looking each of them up by its id would cost as much as finding it did.
# `next_attempt_at` matters for rows that an operator inserted with a time to come, and for those that were appended while the
# clock was ahead; our own wait parked.
# The last condition is asked once and makes this commit, if it is one of its own, return before it is on the disk: a claim that
# a power cut undoes is a row that is pending, and every settlement syncs what stands before it.
_CLAIM: Final = """
UPDATE sync_outbox SET
  status = 'claimed', claimed_by = $2, claimed_at = clock_timestamp(),
  lease_expires_at = clock_timestamp() + make_interval(secs => $3),
  claim_token = claim_token + 1, updated_at = clock_timestamp()
WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM sync_outbox
  WHERE status = 'pending' AND NOT parked AND tenant_id = $1 AND {is_due} {floor}
  ORDER BY priority DESC, occurred_at, id
  LIMIT $4 FOR UPDATE SKIP LOCKED))
AND (SELECT set_config('synchronous_commit', CASE WHEN $5 THEN 'off' ELSE current_setting('synchronous_commit') END, true))
  IS NOT NULL
RETURNING {fields}
"""
# A time costs the client more than any other column: one of the two is enough.
_COMPUTED: Final = {
    "occurred_at": "coalesce(occurred_at, created_at)",
    "is_time_known": "occurred_at IS NOT NULL",
    "is_suspect": f"coalesce(last_error_code = '{LEASE_EXPIRED}', false)",
    "payload": "payload_json",
}
_FIELDS: Final = ", ".join(f"{_COMPUTED.get(name, name)} AS {name}" for name in ClaimedEvent.__struct_fields__)
_CLAIM_ANY: Final = _CLAIM.format(is_due=is_due("next_attempt_at"), floor="", fields=_FIELDS)
_CLAIM_FROM: Final = _CLAIM.format(
    is_due=is_due("next_attempt_at"), floor="AND priority = $6 AND occurred_at >= $7", fields=_FIELDS
)
# From one tenant to the next through the index: the cost depends on the number of tenants, not on their backlogs.
_TENANTS: Final = """
WITH RECURSIVE turn (tenant_id) AS (
  (SELECT tenant_id FROM sync_outbox WHERE status = 'pending' AND NOT parked ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT (SELECT later.tenant_id FROM sync_outbox AS later
          WHERE later.status = 'pending' AND NOT later.parked AND later.tenant_id > turn.tenant_id
          ORDER BY later.tenant_id LIMIT 1)
  FROM turn WHERE turn.tenant_id IS NOT NULL)
SELECT tenant_id FROM turn WHERE tenant_id IS NOT NULL
"""
_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


class Floor(Struct, frozen=True):
    """Where to begin: at this priority, with what occurred then or later. What lies before it is not looked at."""

    priority: int
    since: datetime


async def claim(
    connection: Connection,
    tenant_id: str,
    *,
    instance_id: str,
    limit: int,
    lease_seconds: float,
    floor: Floor | None = None,
) -> list[ClaimedEvent]:
    """The tenant's next events by `(priority DESC, occurred_at)`. Rows that another replica is claiming are passed over."""
    given = (tenant_id, instance_id, lease_seconds, limit, not connection.is_in_transaction())
    if floor is None:
        rows = await connection.fetch(_CLAIM_ANY, *given)
    else:
        rows = await connection.fetch(_CLAIM_FROM, *given, floor.priority, floor.since)
    return sorted([ClaimedEvent(*row.values()) for row in rows], key=_claim_order)


async def waiting_tenants(connection: Connection) -> list[str]:
    """Every tenant that has something to claim, in alphabetical order."""
    return [row["tenant_id"] for row in await connection.fetch(_TENANTS)]


def _claim_order(event: ClaimedEvent) -> tuple[int, bool, datetime, UUID]:
    is_time_known = event.is_time_known
    return -event.priority, not is_time_known, event.occurred_at if is_time_known else _NO_TIME, event.id

"""Out of the outbox: one tenant's next events, for one forwarder, for the time of a lease."""

from typing import Final

import asyncpg

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import ClaimedEvent

# The inner query walks `sync_outbox_claimable` in its own order and stops after the batch. `= ANY (ARRAY(...))` makes sure
# that it runs once: as a join, stale statistics could make the planner run it for every row. `next_attempt_at` matters for
# rows that an operator inserted with a time to come; our own wait parked.
_CLAIM: Final = """
UPDATE sync_outbox SET
  status = 'claimed', claimed_by = $2, claimed_at = clock_timestamp(),
  lease_expires_at = clock_timestamp() + make_interval(secs => $3),
  claim_token = claim_token + 1, updated_at = clock_timestamp()
WHERE id = ANY (ARRAY(
  SELECT id FROM sync_outbox
  WHERE status = 'pending' AND NOT parked AND tenant_id = $1 AND next_attempt_at <= clock_timestamp()
  ORDER BY priority DESC, occurred_at, id
  LIMIT $4 FOR UPDATE SKIP LOCKED))
RETURNING id, claim_token, attempt_count, tenant_id, farm_id, barn_id, device_id, session_id, event_type, occurred_at,
          created_at, trace_id, priority, payload_json AS payload
"""
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


async def claim(
    connection: Connection, tenant_id: str, *, instance_id: str, limit: int, lease_seconds: float
) -> list[ClaimedEvent]:
    """The tenant's next events by `(priority DESC, occurred_at)`. Rows that another replica is claiming are passed over."""
    rows = await connection.fetch(_CLAIM, tenant_id, instance_id, lease_seconds, limit)
    return sorted((_claimed(row) for row in rows), key=_claim_order)


async def waiting_tenants(connection: Connection) -> list[str]:
    """Every tenant that has something to claim, in alphabetical order."""
    return [row["tenant_id"] for row in await connection.fetch(_TENANTS)]


def _claimed(row: asyncpg.Record) -> ClaimedEvent:
    return ClaimedEvent(**dict(row.items()))


def _claim_order(event: ClaimedEvent) -> tuple[int, bool, float, bytes]:
    occurred_at = event.occurred_at
    return -event.priority, occurred_at is None, occurred_at.timestamp() if occurred_at else 0.0, event.id.bytes

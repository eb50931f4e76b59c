"""Back into the claim: rows whose wait is over, and rows whose forwarder is gone. Every replica does it, each a bounded bit."""

import random
from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Lease
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import LEASE_EXPIRED, Failure, RetryPolicy, failed

# `statement_timestamp()`, because the other clock is volatile: it could not bound the index scan, and every waiting row would be
# read in every round.
_PROMOTE: Final = """
UPDATE sync_outbox SET parked = false, updated_at = clock_timestamp()
WHERE id = ANY (ARRAY(
  SELECT id FROM sync_outbox
  WHERE status = 'pending' AND parked AND next_attempt_at <= statement_timestamp()
  ORDER BY next_attempt_at LIMIT $1 FOR UPDATE SKIP LOCKED))
"""
_EXPIRED: Final = """
SELECT id, claim_token, attempt_count, claimed_by FROM sync_outbox
WHERE status IN ('claimed', 'sending') AND coalesce(lease_expires_at, '-infinity') < clock_timestamp()
LIMIT $1 FOR UPDATE SKIP LOCKED
"""


async def promote(connection: Connection, *, limit: int = 1000) -> int:
    """Parked rows that are due may be claimed again. Returns how many."""
    return int((await connection.execute(_PROMOTE, limit)).rpartition(" ")[2])


async def rescue(
    connection: Connection, policy: RetryPolicy, rng: random.Random, *, limit: int = 1000
) -> dict[UUID, str]:
    """Take rows back whose lease is over. Returns their ids and who had them.

    It counts as an attempt: an event that kills every forwarder which picks it up must end in the DLQ and not stop the
    farm's sync for ever.
    """
    async with connection.transaction():
        rows = await connection.fetch(_EXPIRED, limit)
        leases = [
            Lease(id=row["id"], claim_token=row["claim_token"], attempt_count=row["attempt_count"]) for row in rows
        ]
        failure = Failure(
            LEASE_EXPIRED, "the forwarder that had claimed it did not settle it before its lease was over"
        )
        await settle(connection, [failed(lease, failure, policy, rng.random()) for lease in leases])
    return {row["id"]: row["claimed_by"] or "" for row in rows}

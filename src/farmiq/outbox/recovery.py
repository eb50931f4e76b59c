"""Back into the claim: rows whose wait is over, and rows whose forwarder is gone. Every replica does it, each a bounded bit."""

import random
from typing import Final
from uuid import UUID

from farmiq.kit.due_times import first_due, is_due
from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Lease
from farmiq.outbox.settle import settle
from farmiq.outbox.verdicts import RetryPolicy, abandoned

# `statement_timestamp()`, because the other clock is volatile: it could not bound the index scan, and every waiting row would be
# read in every round.
_PROMOTE: Final = f"""
UPDATE sync_outbox SET parked = false, updated_at = clock_timestamp()
WHERE ctid = ANY ({first_due("sync_outbox", "status = 'pending' AND parked", "next_attempt_at", limit="$1")})
"""  # noqa: S608 - the names are ours
_EXPIRED: Final = f"""
SELECT id, tenant_id, claim_token, attempt_count, claimed_by, status = 'sending' AS was_alone FROM sync_outbox
WHERE status IN ('claimed', 'sending') AND {is_due("coalesce(lease_expires_at, '-infinity')")}
LIMIT $1 FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - as above


async def promote(connection: Connection, *, limit: int = 1000) -> int:
    """Parked rows that are due may be claimed again. Returns how many."""
    return int((await connection.execute(_PROMOTE, limit)).rpartition(" ")[2])


async def rescue(
    connection: Connection, policy: RetryPolicy, rng: random.Random, *, limit: int = 1000
) -> dict[UUID, str]:
    """Take rows back whose lease is over. Returns their ids and who had them.

    They are suspects from now on, and are sent one by one (`suspects`). One that was alone, which its status `sending` says,
    pays an attempt: an event that kills every forwarder which picks it up must end in the DLQ and not stop the farm's sync for
    ever, and its neighbours must not end there with it.
    """
    async with connection.transaction():
        outcomes = []
        rows = await connection.fetch(_EXPIRED, limit)
        for row in rows:
            lease = Lease(row["id"], row["claim_token"], row["attempt_count"], row["tenant_id"])
            outcomes.append(abandoned(lease, policy, rng.random(), was_alone=row["was_alone"]))
        await settle(connection, outcomes)
    return {row["id"]: row["claimed_by"] or "" for row in rows}

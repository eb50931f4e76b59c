"""A claim is kept: rows that are still being sent get a whole lease again."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Lease
from farmiq.outbox.fencing import STILL_OURS, fences

# No indexed column changes, so a renewal writes to the table and to none of its indexes.
_RENEW: Final = f"""
UPDATE sync_outbox SET
  lease_expires_at = clock_timestamp() + make_interval(secs => $4), updated_at = clock_timestamp()
WHERE {STILL_OURS}
RETURNING id
"""  # noqa: S608 - the condition is a constant


async def renew(connection: Connection, leases: Sequence[Lease], *, lease_seconds: float) -> set[UUID]:
    """Returns the ids that are still ours, with a lease that begins now. The others were taken back: leave them alone.

    A lease that is over but that nobody has taken back counts as ours, as it does for `settle`.
    """
    if not leases:
        return set()
    return {row["id"] for row in await connection.fetch(_RENEW, *fences(leases), lease_seconds)}

"""Which rows of a claim are still ours: the condition that every later statement about them carries."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Lease

# Each row is looked up by its primary key, in a subquery that the planner cannot turn round (OFFSET 0): it believes that
# nearly no row is in flight, and would otherwise read the whole outbox for those, once for each row of the batch. For the same
# reason the status is excluded and not named: named, it matches the small index of what is in flight.
# Then by ctid. A row that somebody changes in this very moment has another one afterwards, and is left alone.
STILL_OURS: Final = """
ctid = ANY (ARRAY(
  SELECT found.place FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS given (id, tenant_id, claim_token)
  CROSS JOIN LATERAL (
    SELECT ctid AS place FROM sync_outbox AS row
    WHERE row.id = given.id AND row.tenant_id = given.tenant_id AND row.claim_token = given.claim_token
      AND row.status NOT IN ('pending', 'acked', 'dlq', 'failed') OFFSET 0) AS found))
"""
_OURS: Final = f"SELECT id FROM sync_outbox WHERE {STILL_OURS}"  # noqa: S608 - the condition is a constant


async def still_ours(connection: Connection, leases: Sequence[Lease]) -> set[UUID]:
    """The ids of those that nobody has taken back."""
    return {row["id"] for row in await connection.fetch(_OURS, *fences(leases))}


def fences(leases: Sequence[Lease]) -> tuple[list[UUID], list[str], list[int]]:
    """The first three arguments of every statement with `STILL_OURS`."""
    return (
        [lease.id for lease in leases],
        [lease.tenant_id for lease in leases],
        [lease.claim_token for lease in leases],
    )

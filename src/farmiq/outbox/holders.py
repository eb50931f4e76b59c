"""Who has rows in hand, and what the dead letters have in common: read from the partial indexes that hold just those rows."""

from datetime import datetime
from typing import Final

from msgspec import Struct

from farmiq.kit.postgres import Connection

GROUPED_MAX: Final = 50_000
"""Dead letters that are looked at. A person who has more than that looks for one cause, not at each."""

_HOLDERS: Final = """
SELECT claimed_by, tenant_id, count(*) AS events, min(claimed_at) AS since, min(lease_expires_at) AS lease_expires_at
FROM sync_outbox WHERE status IN ('claimed', 'sending') AND claimed_by IS NOT NULL
GROUP BY claimed_by, tenant_id ORDER BY claimed_by, tenant_id
"""
_GROUPS: Final = """
SELECT coalesce(last_error_code, '') AS error_code, event_type, count(*) AS events, min(failed_at) AS first_failed_at,
       max(failed_at) AS last_failed_at, (array_agg(coalesce(last_error_message, dlq_reason, '')))[1] AS example
FROM (SELECT * FROM sync_outbox WHERE status = 'dlq' AND tenant_id = $1 ORDER BY failed_at DESC LIMIT $2) AS dead
GROUP BY 1, 2 ORDER BY events DESC, 1, 2
"""


class Holder(Struct, frozen=True):
    """Rows of one tenant in the hands of one forwarder, until the first of their leases ends."""

    claimed_by: str
    tenant_id: str
    events: int
    since: datetime | None
    lease_expires_at: datetime | None


class DeadGroup(Struct, frozen=True):
    error_code: str
    event_type: str
    events: int
    first_failed_at: datetime | None
    last_failed_at: datetime | None
    example: str


async def holders(connection: Connection) -> list[Holder]:
    return [Holder(**dict(row.items())) for row in await connection.fetch(_HOLDERS)]


async def dead_groups(connection: Connection, tenant_id: str) -> list[DeadGroup]:
    """The largest first."""
    return [DeadGroup(**dict(row.items())) for row in await connection.fetch(_GROUPS, tenant_id, GROUPED_MAX)]

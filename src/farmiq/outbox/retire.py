"""Out of the table: acknowledged rows past their retention."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.kit.postgres import Connection

# A page of the primary key at a time, because no index knows when a row was acknowledged: one that did would be written by
# every acknowledgement. Dead letters stay until a person has decided: the cloud does not have them.
_RETIRE: Final = """
WITH page AS MATERIALIZED (
  SELECT id, tenant_id FROM sync_outbox WHERE id > $1 ORDER BY id FETCH FIRST $2 ROWS WITH TIES),
gone AS (
  DELETE FROM sync_outbox AS o USING page
  WHERE o.id = page.id AND o.tenant_id = page.tenant_id AND o.status = 'acked'
    AND o.updated_at < clock_timestamp() - make_interval(days => $3) AND o.tenant_id <> ALL ($4)
  RETURNING o.id)
SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last_id, (SELECT count(*) FROM gone) AS removed
"""
_RETIRABLE: Final = """
SELECT count(*) FROM sync_outbox
WHERE status = 'acked' AND updated_at < clock_timestamp() - make_interval(days => $1) AND tenant_id <> ALL ($2)
"""

START: Final = UUID(int=0)


class Page(Struct, frozen=True):
    last_id: UUID | None
    removed: int


async def retire(
    connection: Connection, after: UUID, *, retention_days: int, kept_tenants: Sequence[str] = (), limit: int = 1000
) -> Page:
    """Look at the next page after `after`. `last_id` is where to go on, None at the end of the table."""
    row = await connection.fetchrow(_RETIRE, after, limit, retention_days, list(kept_tenants))
    assert row is not None  # noqa: S101 - a SELECT without FROM always has its one row
    return Page(row["last_id"], row["removed"])


async def count_retirable(connection: Connection, *, retention_days: int, kept_tenants: Sequence[str] = ()) -> int:
    """How many rows `retire` would remove. Reads the whole table: for a person who asks."""
    return int(await connection.fetchval(_RETIRABLE, retention_days, list(kept_tenants)))

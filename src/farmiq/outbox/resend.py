"""Events that the cloud had and may have lost: each leaves the table as acknowledged and is appended again, under its own id.

No row goes from `acked` back to `pending`, which the table's rules forbid. A page is one statement, so an event is never in the
table twice, and never gone from it.
"""

from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.kit.postgres import Connection

BEHIND: Final = -10
"""The priority of what is sent again: new events go first, however much there is."""

# The page is of all rows, because no index knows by which answer a row was acknowledged, as in `retire`. A row without a number
# was acknowledged by a cloud that did not count.
_RESEND: Final = """
WITH page AS MATERIALIZED (SELECT id FROM sync_outbox WHERE id > $1 ORDER BY id FETCH FIRST $2 ROWS WITH TIES),
gone AS (
  DELETE FROM sync_outbox AS o USING page
  WHERE o.id = page.id AND o.tenant_id = $3 AND o.status = 'acked'
    AND (o.acked_answer IS NULL OR o.acked_answer > $4 AND o.acked_answer <= $5)
  RETURNING o.*),
appended AS (
  INSERT INTO sync_outbox (id, tenant_id, farm_id, barn_id, device_id, session_id, event_type, occurred_at, trace_id,
                           payload_json, payload_size_bytes, priority, created_at, claim_token)
  SELECT id, tenant_id, farm_id, barn_id, device_id, session_id, event_type, occurred_at, trace_id,
         payload_json, payload_size_bytes, least(priority, $6), created_at, claim_token
  FROM gone)
SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last_id, (SELECT count(*) FROM gone) AS resent
"""


class Page(Struct, frozen=True):
    last_id: UUID | None
    resent: int


async def resend(
    connection: Connection, tenant_id: str, after: UUID, *, answers_from: int, answers_to: int, limit: int = 1000
) -> Page:
    """Look at the next page after `after` for events that an answer later than `answers_from`, and none later than `answers_to`,
    has acknowledged. `last_id` is None at the end of the table."""
    row = await connection.fetchrow(_RESEND, after, limit, tenant_id, answers_from, answers_to, BEHIND)
    assert row is not None  # noqa: S101 - a SELECT without FROM always has its one row
    return Page(row["last_id"], row["resent"])

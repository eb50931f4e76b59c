"""Out of the table: acknowledged rows past their retention.

What is measured is in tables of its own, from which it can be made into events again. Of all other events, which are few, this
table is the only one that has them as they were sent: they stay longer. `outbox_retired` says up to which answer of the cloud
what was measured has left, for whoever finds out that the cloud has lost it.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.contracts import event_types
from farmiq.kit.postgres import Connection

# A page of the primary key at a time, because no index knows when a row was acknowledged: one that did would be written by
# every acknowledgement. Dead letters stay until a person has decided: the cloud does not have them.
_RETIRE_PAGE: Final = """
WITH page AS MATERIALIZED (
  SELECT id, tenant_id FROM sync_outbox WHERE id > $4 ORDER BY id FETCH FIRST $5 ROWS WITH TIES),
gone AS (
  DELETE FROM sync_outbox AS o USING page
  WHERE o.id = page.id AND o.tenant_id = page.tenant_id AND {retirable}
  RETURNING o.id, o.tenant_id, o.acked_answer, {kind} AS kind),
noted AS (
  INSERT INTO outbox_retired AS known (tenant_id, kind, answer)
  SELECT tenant_id, kind, max(coalesce(acked_answer, 0)) FROM gone WHERE kind IS NOT NULL GROUP BY tenant_id, kind
  ON CONFLICT (tenant_id, kind) DO UPDATE SET answer = greatest(known.answer, excluded.answer))
SELECT (SELECT id FROM page ORDER BY id DESC LIMIT 1) AS last_id, (SELECT count(*) FROM gone) AS removed
"""
_RETIRABLE_ROWS: Final = "SELECT count(*) FROM sync_outbox AS o WHERE {retirable}"
# What an answer that was given to nobody's number acknowledged, belongs to those before the first.
_RETIRED: Final = "SELECT kind FROM outbox_retired WHERE tenant_id = $1 AND $2 < greatest(answer, 1) ORDER BY kind"

SAMPLES: Final = "samples"
_MEASURED: Final = (
    event_types.TELEMETRY_BATCH_INGESTED,
    event_types.TELEMETRY_INGESTED,
    event_types.TELEMETRY_AGGREGATED,
)
_SHORT: Final = (*_MEASURED, event_types.SYNC_BATCH_SENT, event_types.SYNC_BATCH_ACKED)
_WORDS: Final = {
    "kind": f"""
CASE WHEN o.event_type = '{event_types.TELEMETRY_AGGREGATED}' THEN o.payload_json ->> 'aggregation_window'
     WHEN o.event_type IN {_MEASURED} THEN '{SAMPLES}' END""",
    "retirable": f"""
o.status = 'acked' AND o.tenant_id <> ALL ($1) AND o.updated_at < clock_timestamp()
  - make_interval(days => CASE WHEN o.event_type IN {_SHORT} THEN $2::int ELSE $3::int END)""",
}
_RETIRE: Final = _RETIRE_PAGE.format(**_WORDS)
_RETIRABLE: Final = _RETIRABLE_ROWS.format(**_WORDS)

START: Final = UUID(int=0)


class Page(Struct, frozen=True):
    last_id: UUID | None
    removed: int


class Retention(Struct, frozen=True):
    """`days` for what was measured, `event_days` for everything else; nothing of `kept_tenants`."""

    days: int
    event_days: int
    kept_tenants: Sequence[str] = ()

    @property
    def arguments(self) -> tuple[list[str], int, int]:
        return list(self.kept_tenants), self.days, max(self.days, self.event_days)


async def retire(connection: Connection, after: UUID, retention: Retention, *, limit: int = 1000) -> Page:
    """Look at the next page after `after`. `last_id` is where to go on, None at the end of the table."""
    row = await connection.fetchrow(_RETIRE, *retention.arguments, after, limit)
    assert row is not None  # noqa: S101 - a SELECT without FROM always has its one row
    return Page(row["last_id"], row["removed"])


async def count_retirable(connection: Connection, retention: Retention) -> int:
    """How many rows `retire` would remove. Reads the whole table: for a person who asks."""
    return int(await connection.fetchval(_RETIRABLE, *retention.arguments))


async def retired_after(connection: Connection, tenant_id: str, answer: int) -> list[str]:
    """What was acknowledged by later answers than this one and has left the table since: `SAMPLES`, and windows of aggregates."""
    return [row["kind"] for row in await connection.fetch(_RETIRED, tenant_id, answer)]

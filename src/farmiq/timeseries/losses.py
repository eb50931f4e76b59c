"""The ledger of declared losses of a tenant: its entries, newest first, and what they come to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries import station_losses
from farmiq.timeseries.coverage import count
from farmiq.timeseries.paging import BeforeLoss
from farmiq.timeseries.station_losses import StationSummary
from farmiq.timeseries.store import spans_of

SMALLEST_ID: Final = UUID(int=0)

# Only what was asked for stands in the statement, so that PostgreSQL sees which index serves.
_PAGE: Final = """
    SELECT event_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq, count, first_ts, last_ts, reason,
           dropped_at, recorded_at, declared_by, note
      FROM stream_losses
     WHERE tenant_id = $1 AND dropped_at >= $2 AND dropped_at <= $3 AND (dropped_at, event_id) < ($3, $4) {filters}
     ORDER BY dropped_at DESC, event_id DESC
     LIMIT $5
"""
_SUMS: Final = """
    SELECT reason, date_trunc('month', dropped_at, 'UTC') AS month_at, count(*) AS records, sum(count)::bigint AS samples,
           max(dropped_at) AS last_at
      FROM stream_losses
     WHERE tenant_id = $1
     GROUP BY reason, month_at
     ORDER BY month_at, reason
"""
# Few streams ever lose anything: the others are not taken apart.
_LOST: Final = "SELECT lost FROM streams WHERE tenant_id = $1 AND NOT isempty(lost)"
_SINCE: Final = "SELECT min(first_seen_at) FROM streams WHERE tenant_id = $1"


class LedgerRow(msgspec.Struct, frozen=True):
    """`count` is what the device says it gave up; `recorded_at` is when this tier wrote it down.
    `declared_by` and `note` are of a person who discarded the samples as a dead letter: who, and why."""

    event_id: UUID
    farm_id: str
    barn_id: str
    device_id: str
    stream_id: UUID
    first_seq: int
    last_seq: int
    count: int
    first_ts: datetime | None
    last_ts: datetime | None
    reason: str
    dropped_at: datetime
    recorded_at: datetime
    declared_by: str | None = None
    note: str | None = None


class Sum(msgspec.Struct, frozen=True):
    """Of one cause in one month."""

    reason: str
    month_at: datetime
    records: int
    samples: int


class LossSummary(msgspec.Struct, frozen=True):
    """`samples_lost` counts each sequence once, and none that came after all; `sums` count what each record says.

    `since` is when the first stream of the tenant came here: before it nothing could be recorded. `stations` is what weigh
    stations gave up, which is counted in none of the others."""

    records: int
    samples_lost: int
    last_at: datetime | None
    since: datetime | None
    sums: list[Sum]
    stations: StationSummary


async def ledger(
    connection: Connection,
    *,
    tenant_id: str,
    since: datetime,
    before: BeforeLoss,
    device_id: str | None = None,
    reason: str | None = None,
    limit: int,
) -> list[LedgerRow]:
    """Those that were given up before that position, newest first."""
    only = {"device_id": device_id, "reason": reason}
    given = {name: value for name, value in only.items() if value is not None}
    filters = "".join(f" AND {name} = ${number}" for number, name in enumerate(given, start=6))
    rows = await connection.fetch(_PAGE.format(filters=filters), tenant_id, since, *before, limit, *given.values())
    return [LedgerRow(**row) for row in rows]


async def summary(connection: Connection, *, tenant_id: str) -> LossSummary:
    rows = await connection.fetch(_SUMS, tenant_id)
    lost = [spans_of(row["lost"]) for row in await connection.fetch(_LOST, tenant_id)]
    since = await connection.fetchval(_SINCE, tenant_id)
    sums = [Sum(row["reason"], row["month_at"], row["records"], row["samples"]) for row in rows]
    last_at = max((row["last_at"] for row in rows), default=None)
    stations = await station_losses.summary(connection, tenant_id)
    return LossSummary(sum(one.records for one in sums), sum(map(count, lost)), last_at, since, sums, stations)


def position_after(rows: Sequence[LedgerRow]) -> BeforeLoss:
    return BeforeLoss(rows[-1].dropped_at, rows[-1].event_id)

"""Questions about samples. Every one is of one tenant, and reads a number of rows that depends on the page, not on the table."""

from datetime import datetime
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries.paging import AfterReading

# A metric that a device has once an hour is looked for among all its samples. A page stops there and says where to go on,
# instead of reading a month for an answer that may be empty.
SCANNED_ROWS_MAX = 50_000

_COLUMNS = """id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, unit, sensor, stream_id, seq,
           time_quality, ingested_at, device_occurred_at"""
# The first page begins before the smallest id at the end of the range, so one form serves every page and its plan holds
# whether or not PostgreSQL looks at the values. The bound on occurred_at alone is what leaves out whole partitions.
_NEWEST = f"""
    SELECT {_COLUMNS}
      FROM telemetry_raw
     WHERE tenant_id = $1 AND device_id = $2 AND occurred_at >= $3
       AND occurred_at <= $4 AND (occurred_at, id) < ($4, $5)
     ORDER BY occurred_at DESC, id DESC
     LIMIT $6
"""  # noqa: S608 - our own constants
_NEWEST_OF_METRIC = f"""
    SELECT * FROM ({_NEWEST}) AS newest
     WHERE metric_type = $7 AND ($8::text IS NULL OR coalesce(sensor, '') = $8)
     ORDER BY occurred_at DESC, id DESC
     LIMIT $9
"""  # noqa: S608 - our own constants
_STOPPED_AT = f"SELECT occurred_at, id FROM ({_NEWEST}) AS newest OFFSET $6 - 1"  # noqa: S608 - our own constants

SMALLEST_ID = UUID(int=0)


class ReadingRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """`device_occurred_at` is there where the time was corrected: what the device's own clock said."""

    id: UUID
    farm_id: str
    barn_id: str
    device_id: str
    occurred_at: datetime
    metric_type: str
    metric_value: float
    unit: str | None
    sensor: str | None
    stream_id: UUID | None
    seq: int | None
    time_quality: int | None
    ingested_at: datetime
    device_occurred_at: datetime | None = None


class Readings(msgspec.Struct, frozen=True):
    """`stopped_at` is where the next page begins; None when there is nothing behind this one."""

    rows: list[ReadingRow]
    stopped_at: AfterReading | None


async def readings(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str,
    since: datetime,
    until: datetime,
    metric: str | None = None,
    sensor: str | None = None,
    before: AfterReading | None = None,
    limit: int,
    scanned_rows_max: int = SCANNED_ROWS_MAX,
) -> Readings:
    """Newest first; `before` is where the page before stopped. A sensor without a name is ''."""
    end = (tenant_id, device_id, since, *(before or AfterReading(until, SMALLEST_ID)))
    if metric is None:
        rows = [ReadingRow(**row) for row in await connection.fetch(_NEWEST, *end, limit)]
        return Readings(rows, _last(rows, limit))
    found = await connection.fetch(_NEWEST_OF_METRIC, *end, scanned_rows_max, metric, sensor, limit)
    rows = [ReadingRow(**row) for row in found]
    if len(rows) == limit:
        return Readings(rows, _last(rows, limit))
    stopped = await connection.fetchrow(_STOPPED_AT, *end, scanned_rows_max)
    return Readings(rows, None if stopped is None else AfterReading(stopped["occurred_at"], stopped["id"]))


def _last(rows: list[ReadingRow], limit: int) -> AfterReading | None:
    return AfterReading(rows[-1].occurred_at, rows[-1].id) if len(rows) == limit else None

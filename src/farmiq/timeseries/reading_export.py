"""Samples for a file: oldest first, of one device or of all, page by page."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.export import PAGE_ROWS, pages_of
from farmiq.timeseries.export_columns import Column, Pages, Rows
from farmiq.timeseries.paging import AfterReading
from farmiq.timeseries.queries import SCANNED_ROWS_MAX

COLUMNS: Final = (
    Column("id", "uuid"), Column("tenant_id", "text"), Column("farm_id", "text"), Column("barn_id", "text"),
    Column("device_id", "text"), Column("occurred_at", "time"), Column("metric_type", "text"),
    Column("metric_value", "float"), Column("unit", "text"), Column("sensor", "text"), Column("stream_id", "uuid"),
    Column("seq", "int"), Column("time_quality", "int"), Column("ingested_at", "time"),
    Column("device_occurred_at", "time"),
)  # fmt: skip

# A metric that is measured once an hour is looked for among all samples. A page is one stretch of them, of which few or none
# may be wanted, and never the search through a whole year; its last row is always answered, to go on from.
_STRETCH: Final = f"""
    SELECT * FROM (
      SELECT {", ".join(column.name for column in COLUMNS)},
             ($6::text IS NULL OR metric_type = $6) AND ($7::text IS NULL OR coalesce(sensor, '') = $7)
             AND ($8::text IS NULL OR barn_id = $8) AS is_wanted,
             row_number() OVER (ORDER BY occurred_at, id) AS number
        FROM telemetry_raw
       WHERE tenant_id = $1 AND occurred_at >= $2 AND occurred_at < $3 AND (occurred_at, id) > ($2, $4)
       ORDER BY occurred_at, id
       LIMIT $5) AS stretch
     WHERE is_wanted OR number = $5
     ORDER BY occurred_at, id
"""  # noqa: S608 - our own constants
_OF_DEVICE: Final = _STRETCH.replace("WHERE tenant_id = $1", "WHERE tenant_id = $1 AND device_id = $9")
_LARGEST_ID: Final = UUID(int=(1 << 128) - 1)


class Wanted(msgspec.Struct, frozen=True):
    tenant_id: str
    since: datetime
    until: datetime
    device_id: str | None = None
    barn_id: str | None = None
    metric: str | None = None
    sensor: str | None = None

    @property
    def is_of_everything(self) -> bool:
        return self.metric is None and self.sensor is None and self.barn_id is None


def reading_pages(pool: Pool, wanted: Wanted, stretch_rows: int | None = None) -> Pages:
    limit = stretch_rows or (PAGE_ROWS if wanted.is_of_everything else SCANNED_ROWS_MAX)
    start = AfterReading(wanted.since - timedelta(microseconds=1), _LARGEST_ID)

    async def ask(after: AfterReading | None) -> tuple[Rows, AfterReading | None]:
        at, last_id = after or start
        given = (wanted.tenant_id, at, wanted.until, last_id, limit, wanted.metric, wanted.sensor, wanted.barn_id)
        async with read_as(pool, wanted.tenant_id) as connection:
            if wanted.device_id is None:
                rows = await connection.fetch(_STRETCH, *given)
            else:
                rows = await connection.fetch(_OF_DEVICE, *given, wanted.device_id)
        is_cut = bool(rows) and rows[-1]["number"] == limit
        position = AfterReading(rows[-1]["occurred_at"], rows[-1]["id"]) if is_cut else None
        return [row[:-2] for row in rows if row["is_wanted"]], position

    return pages_of(ask)

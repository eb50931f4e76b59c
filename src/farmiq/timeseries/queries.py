"""Questions about measurements. Every one is of one tenant."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries.coverage import contiguous_to, count, normalise
from farmiq.timeseries.store import spans_of

_READINGS = """
    SELECT id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, unit, sensor, stream_id, seq,
           time_quality, ingested_at
      FROM telemetry_raw
     WHERE tenant_id = $1 AND device_id = $2 AND occurred_at >= $3 AND occurred_at < $4
       AND ($5::text IS NULL OR metric_type = $5)
       AND ($6::timestamptz IS NULL OR (occurred_at, id) < ($6, $7::uuid))
     ORDER BY occurred_at DESC, id DESC
     LIMIT $8
"""
_STREAMS = """
    SELECT stream_id, farm_id, barn_id, device_id, received, lost, first_seen_at, last_seen_at
      FROM streams
     WHERE tenant_id = $1 AND ($2::text IS NULL OR device_id = $2)
     ORDER BY device_id, stream_id
     LIMIT $3
"""


class ReadingRow(msgspec.Struct, frozen=True, omit_defaults=True):
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


class StreamRow(msgspec.Struct, frozen=True):
    """`missing` counts the gaps below the highest sequence seen: neither stored nor declared lost."""

    stream_id: UUID
    farm_id: str
    barn_id: str
    device_id: str
    contiguous_seq: int
    highest_seq: int
    stored: int
    lost: int
    missing: int
    first_seen_at: datetime
    last_seen_at: datetime


async def readings(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str,
    since: datetime,
    until: datetime,
    metric: str | None,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[ReadingRow]:
    """Newest first; `before` is the last row of the page before."""
    at, row_id = before or (None, None)
    rows = await connection.fetch(_READINGS, tenant_id, device_id, since, until, metric, at, row_id, limit)
    return [ReadingRow(**row) for row in rows]


async def streams(connection: Connection, *, tenant_id: str, device_id: str | None, limit: int) -> list[StreamRow]:
    rows = await connection.fetch(_STREAMS, tenant_id, device_id, limit)
    return [_stream_row(dict(row)) for row in rows]


def _stream_row(row: dict[str, Any]) -> StreamRow:
    received, lost = spans_of(row.pop("received")), spans_of(row.pop("lost"))
    filled = normalise([*received, *lost])
    highest = filled[-1][1] - 1 if filled else 0
    return StreamRow(
        **row,
        contiguous_seq=contiguous_to(filled),
        highest_seq=highest,
        stored=count(received),
        lost=count(lost),
        missing=highest - count(filled),
    )

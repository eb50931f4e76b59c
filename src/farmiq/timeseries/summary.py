"""A tenant in a few numbers: what of the last hours is here, what is missing, and what was declared lost."""

from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from farmiq.kit.postgres import Connection
from farmiq.timeseries import station_losses
from farmiq.timeseries.aggregates import start_of_bucket
from farmiq.timeseries.station_losses import StationsLost

# From device to device, and of each only the hours that were asked for: the cost grows with the devices, not with the years.
_STORED: Final = """
    WITH RECURSIVE measured (device_id) AS (
      (SELECT device_id FROM telemetry_agg
        WHERE tenant_id = $1 AND "window" = '1d' AND device_id > $4 ORDER BY device_id LIMIT 1)
      UNION ALL
      SELECT (SELECT later.device_id FROM telemetry_agg AS later
               WHERE later.tenant_id = $1 AND later."window" = '1d' AND later.device_id > measured.device_id
               ORDER BY later.device_id LIMIT 1)
        FROM measured WHERE measured.device_id IS NOT NULL)
    SELECT page.device_id, coalesce(hours.samples, 0)::bigint AS stored
      FROM (SELECT device_id FROM measured WHERE device_id IS NOT NULL LIMIT $5) AS page
     CROSS JOIN LATERAL (
           SELECT sum(count) AS samples FROM telemetry_agg AS bucket
            WHERE bucket.tenant_id = $1 AND bucket.device_id = page.device_id AND bucket."window" = '1h'
              AND bucket.bucket_start_at >= $2 AND bucket.bucket_start_at < $3) AS hours
     ORDER BY page.device_id
"""
_MISSING: Final = """
    SELECT coalesce(sum(upper(filled) - 1 - (SELECT sum(upper(span) - lower(span)) FROM unnest(filled) AS span)), 0)::bigint
      FROM (SELECT received + lost AS filled FROM streams WHERE tenant_id = $1) AS coverage
     WHERE NOT isempty(filled)
"""
# A loss that was told twice is one, and what turned up after all is none: only the stream's row knows.
_LOST: Final = """
    WITH told AS (
      SELECT stream_id, range_agg(int8range(first_seq, last_seq, '[]')) AS ranges, count(*) AS losses
        FROM stream_losses WHERE tenant_id = $1 AND recorded_at >= $2 AND recorded_at < $3 GROUP BY stream_id),
    found AS (
      SELECT device_id, losses,
             (SELECT coalesce(sum(upper(span) - lower(span)), 0) FROM unnest(ranges * lost) AS span) AS samples
        FROM told JOIN streams USING (stream_id) WHERE tenant_id = $1)
    SELECT coalesce(sum(samples), 0)::bigint AS samples, coalesce(sum(losses), 0)::bigint AS losses,
           count(DISTINCT device_id) AS devices FROM found
"""
_LATEST_LOSS: Final = """
    SELECT device_id, count, reason, dropped_at, recorded_at FROM stream_losses
     WHERE tenant_id = $1 AND recorded_at >= $2 AND recorded_at < $3 ORDER BY recorded_at DESC, event_id DESC LIMIT 1
"""


class LatestLoss(msgspec.Struct, frozen=True):
    device_id: str
    count: int
    reason: str
    dropped_at: datetime
    recorded_at: datetime


class Lost(msgspec.Struct, frozen=True):
    """Of what was recorded in the range. `samples` counts each once, and none that turned up after all."""

    samples: int
    losses: int
    devices: int
    latest: LatestLoss | None


class DeviceStored(msgspec.Struct, frozen=True):
    device_id: str
    stored: int


class Summary(msgspec.Struct, frozen=True):
    """`stored` were measured in the whole hours from `since` on, by the devices of this page; `next`, given as `after`, goes on
    with the others. On the first page only: `lost`, `stations_lost`, and `missing`, which is of any time: gaps below the
    highest sequences, neither stored nor declared lost. `devices`, when asked for, is `stored` of each that has any."""

    since: datetime
    until: datetime
    stored: int
    missing: int | None = None
    lost: Lost | None = None
    stations_lost: StationsLost | None = None
    next: str | None = None
    devices: list[DeviceStored] | None = None


async def summarize(
    connection: Connection,
    *,
    tenant_id: str,
    since: datetime,
    until: datetime,
    after: str = "",
    limit: int,
    is_by_device: bool = False,
) -> Summary:
    since = start_of_bucket(since, "1h")
    page = [DeviceStored(**row) for row in await connection.fetch(_STORED, tenant_id, since, until, after, limit)]
    found = Summary(
        since,
        until,
        sum(one.stored for one in page),
        next=page[-1].device_id if len(page) == limit else None,
        devices=[one for one in page if one.stored] if is_by_device else None,
    )
    if after:
        return found
    return replace(
        found,
        missing=await connection.fetchval(_MISSING, tenant_id),
        lost=await _lost(connection, tenant_id, since, until),
        stations_lost=await station_losses.recorded(connection, tenant_id, since, until),
    )


async def _lost(connection: Connection, tenant_id: str, since: datetime, until: datetime) -> Lost:
    lost = await connection.fetchrow(_LOST, tenant_id, since, until)
    latest = await connection.fetchrow(_LATEST_LOSS, tenant_id, since, until)
    assert lost is not None  # noqa: S101 - as above
    return Lost(**lost, latest=LatestLoss(**latest) if latest else None)

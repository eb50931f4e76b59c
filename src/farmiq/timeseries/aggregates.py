"""Charts: counts, sums, averages and extremes of one metric, and which metrics there are."""

from datetime import datetime, timedelta
from typing import Literal

import msgspec

from farmiq.contracts.timestamps import from_us, to_us
from farmiq.kit.postgres import Connection
from farmiq.timeseries.paging import AfterBucket, AfterSeries
from farmiq.timeseries.rollup import WINDOW_MICROSECONDS

Window = Literal["1m", "1h", "1d"]
WINDOWS: tuple[Window, ...] = ("1m", "1h", "1d")
CHART_POINTS_MAX = 1500

_OF_METRIC = """
     WHERE tenant_id = $1 AND device_id = $2 AND metric_type = $3 AND "window" = $4
       AND bucket_start_at >= $5 AND bucket_start_at < $6
"""
_BUCKETS = f"""
    SELECT bucket_start_at, bucket_end_at, sensor, unit, count, sum_value, min_value, max_value
      FROM telemetry_agg {_OF_METRIC}
       AND (bucket_start_at, sensor, unit) > ($7, $8, $9)
     ORDER BY bucket_start_at, sensor, unit
     LIMIT $10
"""  # noqa: S608 - our own constants
_BUCKETS_OF_SENSOR = _BUCKETS.replace("ORDER BY", "AND sensor = $11\n     ORDER BY")
_MERGED = f"""
    SELECT bucket_start_at, min(bucket_end_at) AS bucket_end_at, NULL AS sensor, unit, sum(count)::bigint AS count,
           sum(sum_value) AS sum_value, min(min_value) AS min_value, max(max_value) AS max_value
      FROM telemetry_agg {_OF_METRIC}
       AND (bucket_start_at, unit) > ($7, $8)
     GROUP BY bucket_start_at, unit
     ORDER BY bucket_start_at, unit
     LIMIT $9
"""  # noqa: S608 - our own constants

# From one series to the next by the index of daily rows: two steps down a tree for each, however many days it has.
_NEXT = """
    SELECT device_id, metric_type, sensor, unit
      FROM telemetry_agg
     WHERE tenant_id = $1 AND "window" = '1d' AND (device_id, metric_type, sensor, unit) > ({after})
     ORDER BY device_id, metric_type, sensor, unit
     LIMIT 1
"""
_SERIES = f"""
    WITH RECURSIVE series AS (
      (SELECT 1 AS number, first.* FROM ({_NEXT.format(after="$2, $3, $4, $5")}) AS first)
      UNION ALL
      SELECT known.number + 1, next.*
        FROM series AS known
        CROSS JOIN LATERAL ({_NEXT.format(after="known.device_id, known.metric_type, known.sensor, known.unit")}) AS next
       WHERE known.number < $6
    )
    SELECT device_id, metric_type, sensor, unit, days.first_bucket_at, days.last_bucket_at
      FROM series
      CROSS JOIN LATERAL (
        SELECT min(bucket_start_at) AS first_bucket_at, max(bucket_start_at) AS last_bucket_at
          FROM telemetry_agg AS day
         WHERE day.tenant_id = $1 AND day."window" = '1d' AND day.device_id = series.device_id
           AND day.metric_type = series.metric_type AND day.sensor = series.sensor AND day.unit = series.unit
      ) AS days
     ORDER BY number
"""  # noqa: S608 - our own constants
_SERIES_OF_DEVICE = _SERIES.replace("""AND "window" = '1d' AND (""", """AND "window" = '1d' AND device_id = $7 AND (""")


class BucketRow(msgspec.Struct, frozen=True):
    """`sensor` is '' for a device that names none, and null where sensors are merged."""

    bucket_start_at: datetime
    bucket_end_at: datetime
    sensor: str | None
    unit: str
    count: int
    sum_value: float
    avg_value: float
    min_value: float
    max_value: float


class SeriesRow(msgspec.Struct, frozen=True):
    """The first and the last day on which it was measured."""

    device_id: str
    metric_type: str
    sensor: str
    unit: str
    first_bucket_at: datetime
    last_bucket_at: datetime


def window_for(since: datetime, until: datetime, points_max: int = CHART_POINTS_MAX) -> Window:
    """The finest window that draws this range with at most `points_max` points; days when none does."""
    for window in WINDOWS:
        if (until - since) <= width_of(window) * points_max:
            return window
    return WINDOWS[-1]


def width_of(window: Window) -> timedelta:
    return timedelta(microseconds=WINDOW_MICROSECONDS[window])


def start_of_bucket(at: datetime, window: Window) -> datetime:
    at_us = to_us(at)
    return from_us(at_us - at_us % WINDOW_MICROSECONDS[window])


async def buckets(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str,
    metric: str,
    window: Window,
    since: datetime,
    until: datetime,
    sensor: str | None = None,
    is_merged: bool = False,
    after: AfterBucket | None = None,
    limit: int,
) -> list[BucketRow]:
    """Oldest first, from the bucket that holds `since`: each sensor by itself, or all sensors of one unit together."""
    first_at = start_of_bucket(since, window)
    at, after_sensor, after_unit = after or AfterBucket(first_at - timedelta(microseconds=1), "", "")
    series = (tenant_id, device_id, metric, window, first_at, until, at)
    if is_merged:
        rows = await connection.fetch(_MERGED, *series, after_unit, limit)
    elif sensor is None:
        rows = await connection.fetch(_BUCKETS, *series, after_sensor, after_unit, limit)
    else:
        rows = await connection.fetch(_BUCKETS_OF_SENSOR, *series, after_sensor, after_unit, limit, sensor)
    return [BucketRow(**row, avg_value=row["sum_value"] / row["count"]) for row in rows]


async def series(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str | None = None,
    after: AfterSeries | None = None,
    limit: int,
) -> list[SeriesRow]:
    """Every metric, sensor and unit of a tenant or of one of its devices, in the order of their names."""
    position = after or AfterSeries(device_id or "", "", "", "")
    if device_id is None:
        rows = await connection.fetch(_SERIES, tenant_id, *position, limit)
    else:
        rows = await connection.fetch(_SERIES_OF_DEVICE, tenant_id, *position, limit, device_id)
    return [SeriesRow(**row) for row in rows]

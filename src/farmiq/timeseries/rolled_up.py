"""Whether aggregates are what is below them: minutes what the rows come to, hours what their minutes, days what their hours."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from farmiq.kit.month_partitions import Partition
from farmiq.kit.postgres import Connection

NAMED_MAX: Final = 20
"""Of each device and window."""

_KEY: Final = "device_id, metric_type, sensor, unit, at"
# Sums of the same values differ in their last digits, by the order in which they were added up.
_COMPARED: Final = f"""
    SELECT device_id, $3::text AS "window", metric_type, sensor, unit, at, below.count AS expected, shown.count AS shown
      FROM ({{below}}) AS below
      FULL JOIN (SELECT device_id, metric_type, sensor, unit, bucket_start_at AS at, count, sum_value, min_value, max_value
                   FROM telemetry_agg
                  WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND "window" = $3 {{shown}}) AS shown USING ({_KEY})
     WHERE (below.count, below.min_value, below.max_value) IS DISTINCT FROM (shown.count, shown.min_value, shown.max_value)
        OR abs(below.sum_value - shown.sum_value)
           > 1e-9 * below.count * greatest(abs(below.min_value), abs(below.max_value))
     ORDER BY device_id, at
"""  # noqa: S608 - our own constants
_IN_MONTHS: Final = """
    AND EXISTS (SELECT FROM unnest($4::timestamptz[], $5::timestamptz[]) AS month (lower_at, upper_at)
                 WHERE {at} >= lower_at AND {at} < upper_at)
"""
_TALLY: Final = "min(min_value) AS min_value, max(max_value) AS max_value"
_ROWS: Final = f"""
    SELECT device_id, metric_type, coalesce(sensor, '') AS sensor, coalesce(unit, '') AS unit,
           date_trunc('minute', occurred_at, 'UTC') AS at, count(*) AS count, sum(metric_value) AS sum_value,
           min(metric_value) AS min_value, max(metric_value) AS max_value
      FROM telemetry_raw WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) {_IN_MONTHS.format(at="occurred_at")}
     GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608 - as above
_NARROWER: Final = f"""
    SELECT device_id, metric_type, sensor, unit, date_trunc('{{unit}}', bucket_start_at, 'UTC') AS at,
           sum(count)::bigint AS count, sum(sum_value) AS sum_value, {_TALLY}
      FROM telemetry_agg WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND "window" = '{{window}}'
     GROUP BY 1, 2, 3, 4, 5
"""  # noqa: S608 - as above
_STATEMENTS: Final = {
    "1m": _COMPARED.format(below=_ROWS, shown=_IN_MONTHS.format(at="bucket_start_at")),
    "1h": _COMPARED.format(below=_NARROWER.format(unit="hour", window="1m"), shown=""),
    "1d": _COMPARED.format(below=_NARROWER.format(unit="day", window="1h"), shown=""),
}
# A cloud shows what an edge counted where that is more than its samples.
_RECEIVED: Final = (
    "SELECT DISTINCT device_id FROM received_buckets WHERE tenant_id = $1 AND device_id = ANY ($2::text[])"
)
# Where retention has taken aggregates, the oldest bucket may have lost a part of what is below it.
_OLDEST: Final = """
    SELECT device_id, "window", min(bucket_start_at) AS at FROM telemetry_agg
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND (SELECT samples FROM retired_samples) > 0
     GROUP BY device_id, "window"
"""
_BELOW: Final = {"1h": "1m", "1d": "1h"}
_HAS_RECEIVED: Final = "SELECT to_regclass('received_buckets') IS NOT NULL"


class WrongBucket(msgspec.Struct, frozen=True):
    """`expected`: how many samples are below it, `shown`: how many it counts. With the same number, its sum or its extremes are
    others."""

    window: str
    metric_type: str
    sensor: str
    unit: str
    at: datetime
    expected: int | None
    shown: int | None


async def wrong_buckets(
    connection: Connection, tenant_id: str, device_ids: Sequence[str], months: Sequence[Partition]
) -> dict[str, list[WrongBucket]]:
    """By device, up to some of each window. Rows are compared in months that are there."""
    skipped: set[str] = set()
    if await connection.fetchval(_HAS_RECEIVED):
        skipped = {row["device_id"] for row in await connection.fetch(_RECEIVED, tenant_id, list(device_ids))}
    compared = [name for name in device_ids if name not in skipped]
    oldest = {
        (row["device_id"], row["window"]): row["at"] for row in await connection.fetch(_OLDEST, tenant_id, compared)
    }
    found: dict[str, list[WrongBucket]] = {}
    for window, statement in _STATEMENTS.items():
        bounds = ([month.lower_at for month in months], [month.upper_at for month in months]) if window == "1m" else ()
        named: dict[str, int] = {}
        for row in await connection.fetch(statement, tenant_id, compared, window, *bounds):
            device_id = row["device_id"]
            cut_at = oldest.get((device_id, _BELOW.get(window, "")))
            if cut_at is not None and row["at"] <= cut_at:
                continue
            named[device_id] = named.get(device_id, 0) + 1
            if named[device_id] <= NAMED_MAX:
                found.setdefault(device_id, []).append(
                    WrongBucket(**{name: row[name] for name in WrongBucket.__struct_fields__})
                )
    return found

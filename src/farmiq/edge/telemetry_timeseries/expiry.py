"""Every SQL statement that ends the life of aggregates."""

from datetime import datetime
from typing import Final

from farmiq.kit.jobs import Work
from farmiq.kit.postgres import Connection

# From one device to the next through an index: the cost depends on how many there are, not on their aggregates.
_DEVICES: Final = """
WITH RECURSIVE device AS (
  (SELECT tenant_id, device_id FROM telemetry_agg ORDER BY tenant_id, device_id LIMIT 1)
  UNION ALL
  SELECT later.tenant_id, later.device_id FROM device CROSS JOIN LATERAL (
    SELECT tenant_id, device_id FROM telemetry_agg
    WHERE (tenant_id, device_id) > (device.tenant_id, device.device_id) ORDER BY tenant_id, device_id LIMIT 1) AS later)
SELECT tenant_id, device_id FROM device
"""
# An aggregate that the cloud has still to be told of is kept until it has been.
_EXPIRED: Final = """
FROM telemetry_agg AS old
WHERE tenant_id = $1 AND device_id = $2 AND "window" IN ('1m', '1h', '1d')
  AND bucket_start_at < $3 AND bucket_end_at <= $3
  AND NOT EXISTS (
    SELECT FROM telemetry_agg_unsent AS waiting
    WHERE (waiting.tenant_id, waiting.device_id, waiting.metric_type, waiting."window", waiting.bucket_start_at,
           waiting.sensor, waiting.unit)
        = (old.tenant_id, old.device_id, old.metric_type, old."window", old.bucket_start_at, old.sensor, old.unit))
"""
_COUNT: Final = f"SELECT count(*) {_EXPIRED}"
# The count of the days that go is added to what the totals know, in the same statement: they stay true however it ends.
_DELETE: Final = f"""
WITH gone AS (
  DELETE FROM telemetry_agg WHERE ctid = ANY (ARRAY(SELECT old.ctid {_EXPIRED} LIMIT $4 FOR UPDATE OF old SKIP LOCKED))
  RETURNING "window", count),
counted AS (
  UPDATE retired_samples SET samples = samples + (SELECT sum(count) FROM gone WHERE "window" = '1d')
  WHERE EXISTS (SELECT FROM gone WHERE "window" = '1d'))
SELECT count(*) FROM gone
"""  # noqa: S608 - constants of this file


async def devices(connection: Connection) -> list[tuple[str, str]]:
    """Tenant and device of every device that has aggregates."""
    return [(row["tenant_id"], row["device_id"]) for row in await connection.fetch(_DEVICES)]


async def delete_aggregates(work: Work, device: tuple[str, str], cutoff: datetime, limit: int) -> int:
    """One step: at most `limit` aggregates of one device whose time ended before. In a dry run, how many there are."""
    if work.is_dry_run:
        return int(await work.connection.fetchval(_COUNT, *device, cutoff))
    return int(await work.connection.fetchval(_DELETE, *device, cutoff, limit))

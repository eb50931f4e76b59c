"""How long `farmiq audit` takes on a month of many devices. A farm has to run (`farmiq up`); a tenant `month` is added to it.

Both tiers get what a month leaves in their tables: rows, aggregates of minutes, hours and days, and coverage, the same at both;
the cloud also what analytics has of the hours. Then the real command is run, as it is and with --deep, and its wall time printed.
`farmiq down --purge` ends the farm and the months with it.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import asyncpg

FARMIQ: Final = str(Path(sys.executable).parent / "farmiq")
TENANT: Final = "month"

# One sample of each channel at each step, numbered in the order of time. Ids are random: only their number matters here. Values
# are the same at both tiers, which compare what their aggregates say.
RAW: Final = """
INSERT INTO telemetry_raw (id, tenant_id, farm_id, barn_id, device_id, occurred_at, metric_type, metric_value, unit, stream_id,
                           seq, sensor, time_quality)
SELECT gen_random_uuid(), $1, 'farm-1', 'barn-1', $2, $4::timestamptz + step * make_interval(secs => $6), 'metric-' || channel,
       20 + sin(step) + channel, 'C', $3, step * $7 + channel + 1, 's' || channel, 2
  FROM generate_series(0, $5::int - 1) AS step, generate_series(0, $7::int - 1) AS channel
"""
AGGREGATES: Final = """
INSERT INTO telemetry_agg (tenant_id, farm_id, barn_id, device_id, metric_type, sensor, unit, "window", bucket_start_at,
                           bucket_end_at, sum_value, count, min_value, max_value)
SELECT tenant_id, 'farm-1', 'barn-1', device_id, metric_type, sensor, telemetry_raw.unit, width.name,
       date_trunc(width.unit, occurred_at, 'UTC') AS start_at,
       date_trunc(width.unit, occurred_at, 'UTC') + ('1 ' || width.unit)::interval,
       sum(metric_value), count(*), min(metric_value), max(metric_value)
  FROM telemetry_raw
 CROSS JOIN (VALUES ('1m', 'minute'), ('1h', 'hour'), ('1d', 'day')) AS width (name, unit)
 WHERE tenant_id = $1 AND device_id = $2
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
"""
STREAM: Final = """
INSERT INTO streams (stream_id, tenant_id, farm_id, barn_id, device_id, received)
VALUES ($1, $2, 'farm-1', 'barn-1', $3, ('{[1,' || $4::text || ')}')::int8multirange)
"""
ANALYTICS: Final = """
INSERT INTO analytics_hours (tenant_id, farm_id, barn_id, hour_at, device_id, metric_type, sensor, unit, revision, count,
                             mean_value, min_value, max_value, event_id)
SELECT tenant_id, farm_id, barn_id, bucket_start_at, device_id, metric_type, sensor, unit, 2 * count + 1, count,
       sum_value / count, min_value, max_value, gen_random_uuid()
  FROM telemetry_agg WHERE tenant_id = $1 AND device_id = $2 AND "window" = '1h'
"""
MONTH: Final = "SELECT ensure_month_partition('telemetry_raw', (now() - make_interval(days => days))::date)"
BEGIN_AT: Final = "SELECT date_trunc('minute', now()) - make_interval(days => $1)"


async def fill(
    url: str, streams: dict[str, Any], given: argparse.Namespace, begin_at: Any, *, has_analytics: bool
) -> None:
    connection = await asyncpg.connect(url, server_settings={"synchronous_commit": "off", "application_name": "month"})
    try:
        await connection.execute(f"{MONTH} FROM generate_series(0, {given.days}, 10) AS days")
        steps = given.days * 86_400 // given.every_seconds
        for device_id, stream_id in streams.items():
            every = float(given.every_seconds)
            await connection.execute(
                RAW, TENANT, device_id, stream_id, begin_at, steps, every, given.channels, timeout=600
            )
            await connection.execute(AGGREGATES, TENANT, device_id, timeout=600)
            if has_analytics:
                await connection.execute(ANALYTICS, TENANT, device_id, timeout=600)
            await connection.execute(STREAM, stream_id, TENANT, device_id, str(steps * given.channels + 1))
        await connection.execute("ANALYZE", timeout=600)
    finally:
        await connection.close()


async def fill_both(variables: dict[str, str], given: argparse.Namespace) -> None:
    streams = {f"month-{number:04}": uuid4() for number in range(given.devices)}
    edge, cloud = variables["EDGE_DATABASE_URL"], variables["CLOUD_DATABASE_URL"]
    connection = await asyncpg.connect(edge)
    begin_at = await connection.fetchval(BEGIN_AT, given.days)
    await connection.close()
    await asyncio.gather(*(fill(url, streams, given, begin_at, has_analytics=url == cloud) for url in (edge, cloud)))


def audit(*options: str) -> tuple[float, dict[str, Any]]:
    began = time.monotonic()
    told = subprocess.run(
        [FARMIQ, "audit", "--tenant", TENANT, "--json", *options], capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - began
    if told.returncode not in (0, 4):
        raise SystemExit(told.stderr)
    return seconds, json.loads(told.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--channels", type=int, default=2)
    parser.add_argument("--every-seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deep", action="store_true", help="once more with every row counted")
    parser.add_argument("--kept", action="store_true", help="the months are there already")
    given = parser.parse_args()
    if not given.kept:
        variables = json.loads(subprocess.run([FARMIQ, "env", "--json"], capture_output=True, check=True).stdout)
        asyncio.run(fill_both(variables, given))
    for options in [()] * given.rounds + [("--deep",)] * given.deep:
        seconds, verdict = audit(*options)
        hours = sum(len(device["hours"]) for device in verdict["devices"])
        counted = sum(device["rows_counted"]["edge"] or 0 for device in verdict["devices"])
        print(
            f"audit {' '.join(options)}: {seconds:.1f} s for {len(verdict['devices'])} devices, {verdict['captured']:,} samples, "
            f"{hours:,} device hours, {counted:,} rows counted at the edge, balanced: {verdict['balanced']}",
            flush=True,
        )


if __name__ == "__main__":
    main()

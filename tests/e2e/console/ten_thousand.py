"""Ten thousand devices that have been measuring for a day, put into the databases of both tiers as if they had."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from e2e.farm import Farm

MANY: Final = 10_000
ONE_IN_HOLES: Final = 500
"""Each so many has a hole that nobody explains."""

_NUMBERS: Final = "generate_series(1, $1::int) AS number"
_ID: Final = "'zz-' || lpad(number::text, 5, '0')"
_DEVICES: Final = f"""
    INSERT INTO devices (device_id, tenant_id, farm_id, barn_id)
    SELECT {_ID}, 'demo', 'farm-1', 'barn-' || 100 + number % 100 FROM {_NUMBERS}
"""  # noqa: S608 - our own constants
# Heard in an hour: they are not quiet before a test on a busy machine has looked at them all.
_LIVENESS: Final = f"""
    INSERT INTO device_liveness (device_id, tenant_id, farm_id, barn_id, last_rx_at, last_sample_ts, said_ts, reported_state,
                                 reported_at, status_json, status_at)
    SELECT {_ID}, 'demo', 'farm-1', 'barn-' || 100 + number % 100, now() + interval '1 h', now(), now(), 'online', now(),
           jsonb_build_object('state', 'online', 'software_version', '0.1.0', 'spool_bytes', 40000 + number,
                              'spool_bytes_max', 100000000, 'last_captured_seq', 86400, 'last_acked_seq', 86400,
                              'unacked_count', 0, 'oldest_sample_age_seconds', 0, 'runway_seconds', 864000), now()
      FROM {_NUMBERS}
"""  # noqa: S608 - our own constants
_SENSORS: Final = f"""
    INSERT INTO sensor_liveness (tenant_id, device_id, metric_type, sensor, last_rx_at, last_sample_ts)
    SELECT 'demo', {_ID}, 'temperature', 't1', now(), now() FROM {_NUMBERS}
"""  # noqa: S608 - our own constants
_STREAMS: Final = f"""
    INSERT INTO streams (stream_id, tenant_id, farm_id, barn_id, device_id, received, first_seen_at)
    SELECT md5({_ID})::uuid, 'demo', 'farm-1', 'barn-' || 100 + number % 100, {_ID},
           CASE WHEN number % $2 = 0 THEN '{{[1,100),[200,86401)}}'::int8multirange ELSE '{{[1,86401)}}'::int8multirange END,
           now() - interval '24 h'
      FROM {_NUMBERS}
"""  # noqa: S608 - our own constants
_BUCKETS: Final = f"""
    INSERT INTO telemetry_agg (tenant_id, farm_id, barn_id, device_id, metric_type, sensor, unit, "window", bucket_start_at,
                               bucket_end_at, sum_value, count, min_value, max_value)
    SELECT 'demo', 'farm-1', 'barn-' || 100 + number % 100, {_ID}, 'temperature', 't1', 'C', shape.window, shape.at,
           shape.at + shape.length, 3600 * 21.5, 3600, 20, 23
      FROM {_NUMBERS}
     CROSS JOIN (
       SELECT '1h' AS "window", at, interval '1 h' AS length
         FROM generate_series(date_trunc('hour', now()) - interval '23 h', date_trunc('hour', now()), interval '1 h') AS at
       UNION ALL
       SELECT '1d', date_trunc('day', now(), 'UTC') - day * interval '1 day', interval '1 day' FROM generate_series(0, 1) AS day
     ) AS shape
"""  # noqa: S608 - our own constants
_TABLES: Final = ("telemetry_agg", "streams", "sensor_liveness", "device_liveness", "devices")


@contextmanager
def ten_thousand(farm: Farm) -> Iterator[None]:
    for statement in (_DEVICES, _LIVENESS, _SENSORS):
        farm.fetch("edge", statement, MANY)
    for tier in ("edge", "cloud"):
        farm.fetch(tier, _STREAMS, MANY, ONE_IN_HOLES)
        farm.fetch(tier, _BUCKETS, MANY)
        farm.fetch(tier, "ANALYZE telemetry_agg, streams")
    yield
    for table in _TABLES:
        farm.fetch("edge", f"DELETE FROM {table} WHERE tenant_id = 'demo' AND device_id LIKE 'zz-%'")  # noqa: S608 - ours
    for table in _TABLES[:2]:
        farm.fetch("cloud", f"DELETE FROM {table} WHERE tenant_id = 'demo' AND device_id LIKE 'zz-%'")  # noqa: S608 - ours

"""Every SQL statement of this service on top of those that it shares with the cloud."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import asyncpg

from farmiq.contracts.timestamps import from_us
from farmiq.edge.telemetry_timeseries.fleet import Fleet, Held
from farmiq.edge.telemetry_timeseries.liveness import REGULAR_PAUSE, REGULAR_SPAN, Clocks, Signs
from farmiq.kit.due_times import AHEAD
from farmiq.kit.postgres import Connection
from farmiq.timeseries.announcement import TELLING_DUE
from farmiq.timeseries.rollup import Bucket
from farmiq.timeseries.stream import Origin

# Later than now only after the clock was ahead: from then on it would hide that the device is gone.
_PAST = f"CASE WHEN known.{{0}} <= $1::timestamptz + {AHEAD} THEN known.{{0}} END"
# One round trip for devices and sensors. A node whose clock runs ahead would otherwise stay fresh for years after its last
# sample: what it measured counts as at most a minute newer than its arrival.
_HEAR = f"""
    WITH sensors AS (
      INSERT INTO sensor_liveness AS known (tenant_id, device_id, metric_type, sensor, last_rx_at, last_sample_ts)
      SELECT tenant_id, device_id, metric, sensor, $1::timestamptz, least(sample_ts, $1::timestamptz + interval '1 minute')
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[])
             AS heard (tenant_id, device_id, metric, sensor, sample_ts)
      ON CONFLICT (tenant_id, device_id, metric_type, sensor) DO UPDATE
         SET last_rx_at = greatest({_PAST.format("last_rx_at")}, excluded.last_rx_at),
             last_sample_ts = greatest({_PAST.format("last_sample_ts")}, excluded.last_sample_ts)
    )
    INSERT INTO device_liveness AS known
           (tenant_id, farm_id, barn_id, device_id, last_rx_at, last_sample_ts, said_ts, gone_at, gone_ts,
            reported_state, reported_at, status_json, status_at, regular_since, scheduled_at)
    SELECT tenant_id, farm_id, barn_id, device_id, CASE WHEN is_alive THEN $1::timestamptz END,
           CASE WHEN sample_ts IS NOT NULL THEN least(sample_ts, $1::timestamptz + interval '1 minute') END, said_ts,
           CASE WHEN gone_ts IS NOT NULL THEN $1::timestamptz END, gone_ts,
           state, CASE WHEN state IS NOT NULL THEN $1::timestamptz END,
           figures, CASE WHEN figures IS NOT NULL THEN $1::timestamptz END,
           CASE WHEN is_alive THEN $1::timestamptz END, CASE WHEN state IS NOT NULL THEN $1::timestamptz END
      FROM unnest($7::text[], $8::text[], $9::text[], $10::text[], $11::boolean[], $12::timestamptz[], $13::timestamptz[],
                  $14::timestamptz[], $15::text[], $16::jsonb[])
           AS heard (tenant_id, farm_id, barn_id, device_id, is_alive, sample_ts, said_ts, gone_ts, state, figures)
    ON CONFLICT (device_id) DO UPDATE
       SET tenant_id = excluded.tenant_id, farm_id = excluded.farm_id, barn_id = excluded.barn_id,
           last_rx_at = greatest({_PAST.format("last_rx_at")}, excluded.last_rx_at),
           last_sample_ts = greatest({_PAST.format("last_sample_ts")}, excluded.last_sample_ts),
           said_ts = greatest(known.said_ts, excluded.said_ts),
           gone_at = coalesce(excluded.gone_at, {_PAST.format("gone_at")}),
           gone_ts = CASE WHEN excluded.gone_at IS NULL THEN known.gone_ts
                          ELSE greatest(known.said_ts, excluded.gone_ts) END,
           reported_state = coalesce(excluded.reported_state, known.reported_state),
           reported_at = coalesce(excluded.reported_at, known.reported_at),
           status_json = coalesce(excluded.status_json, known.status_json),
           status_at = coalesce(excluded.status_at, known.status_at),
           regular_since = CASE WHEN excluded.last_rx_at - known.last_rx_at <= $17::interval
                                THEN coalesce(known.regular_since, known.last_rx_at)
                                ELSE coalesce(excluded.last_rx_at, known.regular_since) END,
           scheduled_at = coalesce(known.scheduled_at, excluded.scheduled_at,
             CASE WHEN excluded.last_rx_at - known.last_rx_at <= $17::interval
                   AND excluded.last_rx_at - known.regular_since >= $18::interval THEN excluded.last_rx_at END)
"""  # noqa: S608 - our own constants
_DEVICES = """
    SELECT device_id, farm_id, barn_id, last_rx_at, last_sample_ts, said_ts, gone_at, gone_ts, reported_state, reported_at,
           status_json, status_at, scheduled_at
      FROM device_liveness
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[])
"""
_CLOCKS = (
    "SELECT device_id, last_rx_at, said_ts, gone_at, gone_ts, scheduled_at FROM device_liveness WHERE tenant_id = $1"
)
# The newest sample lies where the clock of the newest sample stands, so one partition is looked at.
_TIME_QUALITIES = """
    SELECT device_id, newest.time_quality
      FROM unnest($2::text[], $3::timestamptz[]) AS wanted (device_id, at)
     CROSS JOIN LATERAL (
       SELECT time_quality FROM telemetry_raw AS raw
        WHERE raw.tenant_id = $1 AND raw.device_id = wanted.device_id
          AND raw.occurred_at >= wanted.at - interval '1 minute' AND raw.occurred_at <= wanted.at + interval '1 minute'
        ORDER BY raw.occurred_at DESC
        LIMIT 1) AS newest
"""
# Only a stream that was begun later takes another one's place: a status may be late on its way.
_REPORTED_STREAMS = """
    SELECT given.number, before.stream_id, coalesce((known.status_json->>'last_captured_seq')::bigint, 0) AS last_captured_seq
      FROM unnest($1::text[], $2::text[], $3::uuid[]) WITH ORDINALITY AS given (tenant_id, device_id, stream_id, number)
      JOIN device_liveness AS known USING (tenant_id, device_id)
     CROSS JOIN LATERAL (SELECT (known.status_json->>'stream_id')::uuid AS stream_id) AS before
     WHERE before.stream_id <> given.stream_id
       AND NOT EXISTS (
         SELECT FROM streams AS younger JOIN streams AS older USING (tenant_id)
          WHERE tenant_id = given.tenant_id AND younger.stream_id = given.stream_id
            AND older.stream_id = before.stream_id AND younger.first_seen_at <= older.first_seen_at)
"""
_SENSORS = """
    SELECT device_id, metric_type, sensor, last_rx_at, last_sample_ts
      FROM sensor_liveness
     WHERE tenant_id = $1 AND device_id = ANY ($2)
     ORDER BY device_id, metric_type, sensor
"""
# The figures were checked when they came in. A device that never said how it is has none of them.
_FLEET = """
    SELECT device_id, last_rx_at, said_ts, gone_at, gone_ts, scheduled_at, status_at,
           (status_json->>'spool_bytes')::bigint AS spool_bytes,
           (status_json->>'unacked_count')::bigint AS unacked_count,
           (status_json->>'oldest_sample_age_seconds')::float8 AS oldest_seconds,
           (status_json->>'runway_seconds')::float8 AS runway_seconds
      FROM device_liveness
     WHERE device_id <> ALL ($1::text[]) AND ($2::text IS NULL OR tenant_id = $2)
"""
# The update changes nothing. It holds the row until the commit, so that nobody tells the cloud of this bucket meanwhile.
_MARK_UNSENT = """
    INSERT INTO telemetry_agg_unsent AS known
           (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at, due_at)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[],
                         $8::timestamptz[])
    ON CONFLICT (tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit) DO UPDATE
       SET due_at = known.due_at
"""
_TAKE_DUE = f"""
    DELETE FROM telemetry_agg_unsent WHERE ctid = ANY ({TELLING_DUE})
    RETURNING tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at
"""  # noqa: S608 - our own constants
_BUCKETS = """
    SELECT known.tenant_id, known.farm_id, known.barn_id, known.device_id, known.metric_type, known.sensor, known.unit,
           known."window", known.bucket_start_at, known.bucket_end_at, known.count, known.sum_value, known.min_value,
           known.max_value
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::timestamptz[])
           AS wanted (tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at)
      JOIN telemetry_agg AS known
     USING (tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit)
"""


async def save_signs(connection: Connection, devices: Sequence[Signs], received_at: datetime) -> None:
    """`devices` comes in the order of its ids."""
    if not devices:
        return
    sensors = [
        (device.origin.tenant_id, device.origin.device_id, metric, sensor, from_us(at_us))
        for device in devices
        for (metric, sensor), at_us in sorted(device.newest_us.items())
    ]
    rows = [_device_row(device) for device in devices]
    columns = (*_columns(sensors, 5), *_columns(rows, 10))
    await connection.execute(_HEAR, received_at, *columns, REGULAR_PAUSE, REGULAR_SPAN)


class ReportedStream(NamedTuple):
    stream_id: UUID
    last_captured_seq: int


async def reported_streams(connection: Connection, streams: Mapping[Origin, UUID]) -> dict[Origin, ReportedStream]:
    """The stream of each device's last status, where that is another one than the device's stream given here, and older."""
    origins = list(streams)
    rows = await connection.fetch(
        _REPORTED_STREAMS,
        [origin.tenant_id for origin in origins],
        [origin.device_id for origin in origins],
        list(streams.values()),
    )
    return {origins[row["number"] - 1]: ReportedStream(row["stream_id"], row["last_captured_seq"]) for row in rows}


async def devices(connection: Connection, tenant_id: str, device_ids: Sequence[str]) -> list[asyncpg.Record]:
    """Those of them that were ever heard."""
    return await connection.fetch(_DEVICES, tenant_id, list(device_ids))


async def clocks(connection: Connection, tenant_id: str) -> list[asyncpg.Record]:
    return await connection.fetch(_CLOCKS, tenant_id)


async def time_qualities(
    connection: Connection, tenant_id: str, newest_at: Mapping[str, datetime]
) -> dict[str, int | None]:
    """How far each device trusted its clock when it measured what is newest."""
    rows = await connection.fetch(_TIME_QUALITIES, tenant_id, list(newest_at), list(newest_at.values()))
    return {row["device_id"]: row["time_quality"] for row in rows}


async def sensors(connection: Connection, tenant_id: str, device_ids: Sequence[str]) -> list[asyncpg.Record]:
    return await connection.fetch(_SENSORS, tenant_id, list(device_ids))


async def fleet(
    connection: Connection,
    without: Sequence[str],
    now: datetime,
    online_timeout: timedelta,
    tenant_id: str | None = None,
) -> Fleet:
    """Every device of a tenant, or of all, that was ever heard, except these. Read in steps, however many there are."""
    found = Fleet()
    async with connection.transaction():
        async for row in connection.cursor(_FLEET, list(without), tenant_id, prefetch=500):
            clocks = Clocks(*(row[name] for name in Clocks.__struct_fields__))
            held = Held(**{name: row[name] for name in Held.__struct_fields__})
            found.add(clocks, held, now, online_timeout)
    return found


async def mark_unsent(connection: Connection, due: Sequence[tuple[Bucket, datetime]]) -> None:
    """The cloud is to be told of these buckets. `due` comes in the order of its keys; call it after the buckets were written."""
    rows = [
        (
            bucket.origin.tenant_id, bucket.origin.device_id, bucket.metric, bucket.sensor, bucket.unit, bucket.window,
            from_us(bucket.start_us), due_at,
        )
        for bucket, due_at in due
    ]  # fmt: skip
    if rows:
        await connection.execute(_MARK_UNSENT, *_columns(rows, 8))


async def take_due(connection: Connection, now: datetime, limit: int) -> list[asyncpg.Record]:
    """Take up to `limit` buckets off the list; this transaction has to tell the cloud of them."""
    return await connection.fetch(_TAKE_DUE, now, limit)


async def buckets(connection: Connection, keys: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    """These buckets as they are now. After `take_due`, and not in the same statement: what was committed before counts."""
    return await connection.fetch(_BUCKETS, *_columns([tuple(key) for key in keys], 7))


def _device_row(device: Signs) -> tuple[object, ...]:
    origin = device.origin
    newest_us = max(device.newest_us.values(), default=None)
    return (
        origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id, device.is_alive,
        None if newest_us is None else from_us(newest_us), device.said_at, device.gone_said_at, device.state, device.figures,
    )  # fmt: skip


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    return [[row[at] for row in rows] for at in range(width)]

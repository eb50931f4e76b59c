"""Aggregates that an edge sent instead of samples, or beside them.

For each bucket `telemetry_agg` shows whichever counted more: what the samples that came here gave, or what an edge sent. The two
are never added together. While samples are added to buckets that show what an edge sent, the edge's word is taken out, and
shown again afterwards if it still counts more. So the order in which everything comes makes no difference.

Whoever does this is alone with the device until its commit; samples of devices that send no aggregates are written side by side.
"""

from collections.abc import Iterable, Sequence, Set
from typing import Final

import asyncpg

from farmiq.contracts.timestamps import from_us, to_us
from farmiq.kit.postgres import Connection
from farmiq.timeseries.rollup import Bucket, Tally, bounded, tally_batch, tally_reading, with_wider_windows
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.store import merge_aggregates
from farmiq.timeseries.stream import Origin

Aggregate = tuple[Bucket, Tally]
Device = tuple[str, str]
"""Tenant and device: a bucket's key without the rest."""

# The first half of every lock's key, so that these are no other part's locks: the letters "agg".
_LOCKS: Final = int.from_bytes(b"agg", "big")
_LOCK_DEVICES: Final = """
    SELECT CASE WHEN is_alone THEN pg_advisory_xact_lock($1, number) ELSE pg_advisory_xact_lock_shared($1, number) END
      FROM (SELECT hashtext(device) AS number, bool_or(is_alone) AS is_alone
              FROM unnest($2::text[], $3::boolean[]) AS given (device, is_alone) GROUP BY 1 ORDER BY 1) AS ordered
"""
_AGGREGATING: Final = """
    SELECT tenant_id, device_id FROM unnest($1::text[], $2::text[]) AS given (tenant_id, device_id)
     WHERE EXISTS (SELECT FROM received_buckets AS known
                    WHERE known.tenant_id = given.tenant_id AND known.device_id = given.device_id)
"""
_KEY: Final = 'tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit'
_GIVEN: Final = f"""
    unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[],
           $10::bigint[], $11::float8[], $12::float8[], $13::float8[])
      AS given ({_KEY}, farm_id, barn_id, count, sum_value, min_value, max_value)
"""
_TAKE_OUT: Final = f"""
    WITH known AS (DELETE FROM received_buckets AS known
                    USING unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[])
                          AS given ({_KEY})
                    WHERE (known.tenant_id, known.device_id, known.metric_type, known."window", known.bucket_start_at,
                           known.sensor, known.unit)
                        = (given.tenant_id, given.device_id, given.metric_type, given."window", given.bucket_start_at,
                           given.sensor, given.unit)
                   RETURNING known.*),
         shown AS (DELETE FROM telemetry_agg AS agg USING known
                    WHERE (agg.tenant_id, agg.device_id, agg.metric_type, agg."window", agg.bucket_start_at, agg.sensor, agg.unit)
                        = (known.tenant_id, known.device_id, known.metric_type, known."window", known.bucket_start_at,
                           known.sensor, known.unit)
                   RETURNING agg.*)
    SELECT shown.*, raw_count, raw_sum_value, raw_min_value, raw_max_value FROM shown JOIN known USING ({_KEY})
"""  # noqa: S608 - put together from our own constants
_KEEP_RAW: Final = f"""
    INSERT INTO received_buckets ({_KEY}, raw_count, raw_sum_value, raw_min_value, raw_max_value)
    SELECT {_KEY}, coalesce(shown.count, 0), coalesce(shown.sum_value, 0), coalesce(shown.min_value, 0),
           coalesce(shown.max_value, 0)
      FROM {_GIVEN} LEFT JOIN telemetry_agg AS shown USING ({_KEY})
     WHERE given.count > coalesce(shown.count, 0)
    ON CONFLICT DO NOTHING  -- what is shown came from an edge already, and the samples' part is here
"""  # noqa: S608 - as above
_SHOW: Final = f"""
    INSERT INTO telemetry_agg AS shown
           ({_KEY}, farm_id, barn_id, count, sum_value, min_value, max_value, bucket_end_at)
    SELECT given.*, bucket_start_at
             + ('1 ' || CASE "window" WHEN '1m' THEN 'minute' WHEN '1h' THEN 'hour' ELSE 'day' END)::interval
      FROM {_GIVEN}
    ON CONFLICT ({_KEY}) DO UPDATE
       SET count = excluded.count, sum_value = excluded.sum_value, min_value = excluded.min_value,
           max_value = excluded.max_value, updated_at = now()
     WHERE excluded.count > shown.count
"""  # noqa: S608 - as above


async def lock_devices(connection: Connection, sampled: Set[Device], alone: Set[Device]) -> Set[Device]:
    """Until the commit: alone with some devices, beside other writers of samples with the others.

    Answers those of `sampled` that have aggregates from an edge and are not in `alone`. Nothing may be written then: start
    again, with these in `alone` too.
    """
    devices = sorted(sampled | alone)
    names = [f"{tenant_id}/{device_id}" for tenant_id, device_id in devices]
    await connection.execute(_LOCK_DEVICES, _LOCKS, names, [device in alone for device in devices])
    beside = sorted(sampled - alone)
    tenant_ids, device_ids = [tenant_id for tenant_id, _ in beside], [device_id for _, device_id in beside]
    found = await connection.fetch(_AGGREGATING, tenant_ids, device_ids)
    return {(row["tenant_id"], row["device_id"]) for row in found}


async def take_out(connection: Connection, samples: Sequence[StreamBatch | SingleReading]) -> list[Aggregate]:
    """Of the buckets that these samples fall into: leave only what samples gave, and answer what an edge had sent."""
    if not samples:
        return []
    buckets = _buckets(samples)
    rows = await connection.fetch(_TAKE_OUT, *_keys(buckets))
    own = [(_bucket(row), _raw(row)) for row in rows if row["raw_count"]]
    await merge_aggregates(connection, sorted(own))
    return [(_bucket(row), Tally(row["count"], row["sum_value"], row["min_value"], row["max_value"])) for row in rows]


async def show(connection: Connection, aggregates: Iterable[Aggregate]) -> None:
    """Put these into their buckets, where they count more than what is shown there."""
    given = sorted(_largest(aggregates).items())
    if not given:
        return
    tallies = [tally for _, tally in given]
    columns = (
        *_keys([bucket for bucket, _ in given]),
        [bucket.origin.farm_id for bucket, _ in given],
        [bucket.origin.barn_id for bucket, _ in given],
        [tally.samples for tally in tallies],
        [bounded(tally.total) for tally in tallies],
        [tally.low for tally in tallies],
        [tally.high for tally in tallies],
    )
    await connection.execute(_KEEP_RAW, *columns)
    await connection.execute(_SHOW, *columns)


def _largest(aggregates: Iterable[Aggregate]) -> dict[Bucket, Tally]:
    """One for each bucket. A device that moved has one bucket all the same: its place is no part of the key."""
    largest: dict[tuple[object, ...], Aggregate] = {}
    for bucket, tally in aggregates:
        key = (bucket.origin.tenant_id, bucket.origin.device_id, *bucket[1:])
        if key not in largest or tally.samples > largest[key][1].samples:
            largest[key] = (bucket, tally)
    return dict(largest.values())


def _buckets(items: Sequence[StreamBatch | SingleReading]) -> list[Bucket]:
    minutes: dict[Bucket, Tally] = {}
    for item in items:
        if isinstance(item, StreamBatch):
            tally_batch(item, item.span, minutes)
        else:
            tally_reading(item, minutes)
    return [bucket for bucket, _ in with_wider_windows(minutes)]


def _keys(buckets: Sequence[Bucket]) -> tuple[list[object], ...]:
    return (
        [bucket.origin.tenant_id for bucket in buckets],
        [bucket.origin.device_id for bucket in buckets],
        [bucket.metric for bucket in buckets],
        [bucket.window for bucket in buckets],
        [from_us(bucket.start_us) for bucket in buckets],
        [bucket.sensor for bucket in buckets],
        [bucket.unit for bucket in buckets],
    )


def _bucket(row: asyncpg.Record) -> Bucket:
    origin = Origin(row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"])
    start_us = to_us(row["bucket_start_at"])
    return Bucket(origin, row["metric_type"], row["sensor"], row["unit"], row["window"], start_us)


def _raw(row: asyncpg.Record) -> Tally:
    return Tally(row["raw_count"], row["raw_sum_value"], row["raw_min_value"], row["raw_max_value"])

"""Aggregates that an edge sent instead of samples, or beside them.

A bucket of a minute shows whichever counted more: what the samples that came here gave, or what an edge sent. An hour shows what
an edge sent for it, what its minutes show together, or what its samples gave, whichever counted most; a day likewise of its
hours. They are never added together, and an edge that sends minutes only still has hours and days.

While samples are added, what an edge sent is taken out of the buckets concerned, and put back afterwards where it still counts
more. So the order in which everything comes makes no difference. Whoever does this is alone with the device until its commit;
samples of devices that send no aggregates are written side by side.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import timedelta
from typing import Final

import asyncpg
import msgspec

from farmiq.contracts.timestamps import to_us
from farmiq.kit.postgres import Connection
from farmiq.timeseries.rollup import (
    WINDOW_MICROSECONDS,
    Bucket,
    Tally,
    bounded,
    tally_batch,
    tally_reading,
    with_wider_windows,
)
from farmiq.timeseries.samples import SingleReading, StreamBatch
from farmiq.timeseries.store import (
    GIVEN_KEYS,
    INSERT_AGGREGATES,
    KEY,
    aggregate_columns,
    key_columns,
    merge_aggregates,
)
from farmiq.timeseries.store import totals as totals_of_buckets
from farmiq.timeseries.stream import Origin

Aggregate = tuple[Bucket, Tally]
Device = tuple[str, str]
"""Tenant and device: a bucket's key without the rest."""

NARROWER: Final = {"1h": "1m", "1d": "1h"}

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
_TAKE_OUT: Final = f"""
    WITH known AS (DELETE FROM received_buckets AS known
                    USING {GIVEN_KEYS}
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
    SELECT {KEY}, farm_id, barn_id, raw_count, raw_sum_value, raw_min_value, raw_max_value, sent_count, sent_sum_value,
           sent_min_value, sent_max_value
      FROM shown JOIN known USING ({KEY})
"""  # noqa: S608 - put together from our own constants
# Sums beyond what sixty of them can be added up to are cut off: PostgreSQL would refuse the total.
_ADD_UP: Final = f"""
    SELECT given.number, sum(part.count)::bigint AS count,
           sum(greatest(least(part.sum_value, 1e306), -1e306) ORDER BY part.bucket_start_at) AS sum_value,
           min(part.min_value) AS min_value, max(part.max_value) AS max_value
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[])
             WITH ORDINALITY AS given ({KEY}, number)
      JOIN telemetry_agg AS part USING (tenant_id, device_id, metric_type, sensor, unit)
     WHERE part."window" = $8 AND part.bucket_start_at >= given.bucket_start_at
       AND part.bucket_start_at < given.bucket_start_at + $9::interval
     GROUP BY given.number
"""  # noqa: S608 - as above
_KEEP: Final = f"""
    INSERT INTO received_buckets ({KEY}, raw_count, raw_sum_value, raw_min_value, raw_max_value, sent_count, sent_sum_value,
                                  sent_min_value, sent_max_value)
    SELECT {KEY}, coalesce(shown.count, 0), coalesce(shown.sum_value, 0), coalesce(shown.min_value, 0),
           coalesce(shown.max_value, 0), sent_count, sent_sum_value, sent_min_value, sent_max_value
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::bigint[],
                  $9::bigint[], $10::float8[], $11::float8[], $12::float8[])
             AS given ({KEY}, known_count, sent_count, sent_sum_value, sent_min_value, sent_max_value)
      LEFT JOIN telemetry_agg AS shown USING ({KEY})
     WHERE given.known_count > coalesce(shown.count, 0)
"""  # noqa: S608 - as above
_SHOW: Final = f"""
    {INSERT_AGGREGATES}
       SET count = excluded.count, sum_value = excluded.sum_value, min_value = excluded.min_value,
           max_value = excluded.max_value, updated_at = now()
     WHERE excluded.count > known.count
"""
_NEVER_HERE: Final = f"""
    SELECT coalesce(sum(shown.count - known.raw_count), 0)::bigint
      FROM received_buckets AS known JOIN telemetry_agg AS shown USING ({KEY}) WHERE known."window" = '1d'
"""  # noqa: S608 - as above


class TakenOut(msgspec.Struct, frozen=True):
    """Every bucket that may show something else afterwards, and the largest that an edge sent for some of them."""

    buckets: set[Bucket]
    sent: dict[Bucket, Tally]


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


async def take_out(
    connection: Connection, samples: Sequence[StreamBatch | SingleReading], aggregates: Sequence[Aggregate]
) -> TakenOut:
    """Of the buckets that these fall into, and the wider ones around them: leave only what samples gave."""
    places = _places([item.origin for item in samples] + [bucket.origin for bucket, _ in aggregates])
    buckets = {_at(places, bucket) for bucket in [*_buckets(samples), *_with_wider(bucket for bucket, _ in aggregates)]}
    if not buckets:
        return TakenOut(set(), {})
    rows = await connection.fetch(_TAKE_OUT, *key_columns(sorted(buckets)))
    await merge_aggregates(connection, sorted((_bucket(row), _tally(row, "raw")) for row in rows if row["raw_count"]))
    sent = [(_bucket(row), _tally(row, "sent")) for row in rows if row["sent_count"]]
    return TakenOut(buckets, _largest((_at(places, bucket), tally) for bucket, tally in [*sent, *aggregates]))


async def show(connection: Connection, taken: TakenOut) -> None:
    """Put into each bucket what counts more than its samples: from the narrow windows to the wide ones, which add them up."""
    for window in WINDOW_MICROSECONDS:
        buckets = sorted(bucket for bucket in taken.buckets if bucket.window == window)
        known = {bucket: taken.sent[bucket] for bucket in buckets if bucket in taken.sent}
        for bucket, tally in (await _added_up(connection, buckets, window)).items():
            if bucket not in known or tally.samples >= known[bucket].samples:
                known[bucket] = tally
        if known:
            given = sorted(known.items())
            await connection.execute(_KEEP, *_kept_columns(given, taken.sent))
            await connection.execute(_SHOW, *aggregate_columns(given))


async def totals(connection: Connection) -> dict[str, int]:
    """As `timeseries.store.totals`, without the samples that only an edge has counted."""
    found = await totals_of_buckets(connection)
    never_here = int(await connection.fetchval(_NEVER_HERE))
    return found | {"stored": found["stored"] - never_here, "counted_elsewhere": never_here}


async def _added_up(connection: Connection, buckets: Sequence[Bucket], window: str) -> dict[Bucket, Tally]:
    if window not in NARROWER or not buckets:
        return {}
    width = timedelta(microseconds=WINDOW_MICROSECONDS[window])
    rows = await connection.fetch(_ADD_UP, *key_columns(buckets), NARROWER[window], width)
    return {
        buckets[row["number"] - 1]: Tally(row["count"], bounded(row["sum_value"]), row["min_value"], row["max_value"])
        for row in rows
    }


def _kept_columns(given: Sequence[Aggregate], sent: Mapping[Bucket, Tally]) -> tuple[list[object], ...]:
    found = [sent.get(bucket) for bucket, _ in given]
    return (
        *key_columns([bucket for bucket, _ in given]),
        [tally.samples for _, tally in given],
        [tally and tally.samples for tally in found],
        [tally and bounded(tally.total) for tally in found],
        [tally and tally.low for tally in found],
        [tally and tally.high for tally in found],
    )


def _largest(aggregates: Iterable[Aggregate]) -> dict[Bucket, Tally]:
    """One for each bucket: the one that counted most, and of two that counted the same, always the same one."""
    largest: dict[Bucket, Tally] = {}
    for bucket, tally in aggregates:
        largest[bucket] = max(largest.get(bucket, tally), tally)
    return largest


def _buckets(items: Sequence[StreamBatch | SingleReading]) -> list[Bucket]:
    minutes: dict[Bucket, Tally] = {}
    for item in items:
        if isinstance(item, StreamBatch):
            tally_batch(item, item.span, minutes)
        else:
            tally_reading(item, minutes)
    return [bucket for bucket, _ in with_wider_windows(minutes)]


def _with_wider(buckets: Iterable[Bucket]) -> Iterator[Bucket]:
    for bucket in buckets:
        for window, width_us in WINDOW_MICROSECONDS.items():
            if width_us >= WINDOW_MICROSECONDS[bucket.window]:
                yield bucket._replace(window=window, start_us=bucket.start_us - bucket.start_us % width_us)


def _places(origins: Iterable[Origin]) -> dict[Device, Origin]:
    """A device that moved has one bucket all the same: its place is no part of the key."""
    return {(origin.tenant_id, origin.device_id): origin for origin in sorted(origins)}


def _at(places: Mapping[Device, Origin], bucket: Bucket) -> Bucket:
    return bucket._replace(origin=places[bucket.origin.tenant_id, bucket.origin.device_id])


def _bucket(row: asyncpg.Record) -> Bucket:
    origin = Origin(row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"])
    start_us = to_us(row["bucket_start_at"])
    return Bucket(origin, row["metric_type"], row["sensor"], row["unit"], row["window"], start_us)


def _tally(row: asyncpg.Record, kind: str) -> Tally:
    return Tally(row[f"{kind}_count"], row[f"{kind}_sum_value"], row[f"{kind}_min_value"], row[f"{kind}_max_value"])

"""Every SQL statement on the measurement tables."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from uuid import UUID

import asyncpg
import msgspec

from farmiq.contracts.telemetry import TelemetryLoss
from farmiq.contracts.timestamps import from_us
from farmiq.kit.errors import EventIdReused
from farmiq.kit.postgres import Connection
from farmiq.timeseries.content import DIGEST_MASK, Block, BlockContent
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.packed_rows import as_copy
from farmiq.timeseries.rollup import SUM_MAX, SUM_MIN, Bucket, Tally, at_one_place, bounded
from farmiq.timeseries.samples import COLUMNS, ReadingKey, Row
from farmiq.timeseries.stream import Coverage, Origin, StreamKey, StreamLimit

_WANTED = "unnest($1::text[], $2::uuid[]) AS wanted (tenant_id, stream_id) JOIN streams USING (tenant_id, stream_id)"
_LOCK = f"""
    SELECT stream_id, tenant_id, farm_id, barn_id, device_id, received, lost
      FROM {_WANTED} ORDER BY stream_id, tenant_id COLLATE "C" FOR UPDATE OF streams
"""  # noqa: S608 - our own constants
_READ = _LOCK.replace("FOR UPDATE OF streams", "")
# All of them or none: whoever has to make a stream first must not hold another one while it waits.
_LOCK_KNOWN = _LOCK.replace(
    "ORDER BY",
    f"WHERE (SELECT count(*) FROM {_WANTED}) = cardinality($2::uuid[]) ORDER BY",  # noqa: S608 - our own constants
)
# One after the other: two transactions that both count first would both find room.
_LOCK_OPENING = "SELECT pg_advisory_xact_lock(hashtext('farmiq.streams.open'))"
_BEYOND_LIMIT = """
    WITH new AS (
      SELECT tenant_id, stream_id, device_id,
             row_number() OVER (PARTITION BY tenant_id, device_id ORDER BY stream_id) AS number_of_device,
             row_number() OVER (PARTITION BY tenant_id ORDER BY stream_id) AS number_of_tenant
        FROM unnest($1::text[], $2::uuid[], $3::text[]) AS wanted (tenant_id, stream_id, device_id)
       WHERE NOT EXISTS (SELECT FROM streams AS known
                          WHERE known.tenant_id = wanted.tenant_id AND known.stream_id = wanted.stream_id)),
    opened AS (
      SELECT tenant_id, device_id, count(*) AS streams FROM streams
       WHERE tenant_id IN (SELECT tenant_id FROM new) AND first_seen_at BETWEEN now() - $6::interval AND clock_timestamp()
       GROUP BY tenant_id, device_id)
    SELECT tenant_id, stream_id FROM new
     WHERE number_of_device + coalesce((SELECT streams FROM opened
             WHERE opened.tenant_id = new.tenant_id AND opened.device_id = new.device_id), 0) > $4
        OR number_of_tenant + (SELECT coalesce(sum(streams), 0) FROM opened WHERE opened.tenant_id = new.tenant_id) > $5
"""
_CREATE = """
    INSERT INTO streams (tenant_id, stream_id, farm_id, barn_id, device_id)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[])
    ON CONFLICT (tenant_id, stream_id) DO NOTHING
"""
# Ranges travel as text: the driver would take a list of multiranges for an array of two dimensions.
_SAVE = f"""
    WITH content AS (
      INSERT INTO stream_content AS known (tenant_id, stream_id, block, samples, digest)
      SELECT * FROM unnest($7::text[], $8::uuid[], $9::bigint[], $10::bigint[], $11::bigint[])
      ON CONFLICT (tenant_id, stream_id, block) DO UPDATE
         SET samples = known.samples + excluded.samples, digest = (known.digest + excluded.digest) & {DIGEST_MASK})
    UPDATE streams AS known
       SET received = seen.received::int8multirange, lost = seen.lost::int8multirange, last_seen_at = now(),
           boot_id = coalesce(seen.boot_id, known.boot_id), channels = coalesce(seen.channels, known.channels)
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::uuid[], $6::jsonb[])
           AS seen (tenant_id, stream_id, received, lost, boot_id, channels)
     WHERE known.tenant_id = seen.tenant_id AND known.stream_id = seen.stream_id
"""  # noqa: S608 - our own constants
_LOSS = """
    INSERT INTO stream_losses (event_id, tenant_id, farm_id, barn_id, device_id, stream_id, first_seq, last_seq, count,
                               first_ts, last_ts, reason, dropped_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
    ON CONFLICT (tenant_id, event_id) DO NOTHING
"""
_LOSS_KNOWN = """
    SELECT (device_id, stream_id, first_seq, last_seq, count, reason) = ($3, $4, $5, $6, $7, $8)
      FROM stream_losses WHERE tenant_id = $1 AND event_id = $2
"""
_READING = f"""
    INSERT INTO telemetry_raw ({", ".join(COLUMNS)})
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[],
                         $8::float8[], $9::text[], $10::timestamptz[], $11::uuid[], $12::bigint[], $13::text[], $14::smallint[],
                         $15::timestamptz[])
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, id, occurred_at
"""  # noqa: S608 - the names are our own constants
_ID_REUSED = """
    SELECT id FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::float8[], $7::text[])
           AS given (id, tenant_id, occurred_at, device_id, metric_type, metric_value, unit)
      JOIN telemetry_raw AS known USING (tenant_id, id, occurred_at)
     WHERE (known.device_id, known.metric_type, known.metric_value, known.unit, known.stream_id)
           IS DISTINCT FROM (given.device_id, given.metric_type, given.metric_value, given.unit, NULL)
     LIMIT 1
"""
_COMPARED = ("id", "tenant_id", "occurred_at", "device_id", "metric_type", "metric_value", "unit")
KEY = 'tenant_id, device_id, metric_type, "window", bucket_start_at, sensor, unit'
GIVEN_KEYS = f"""
    unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[]) AS given ({KEY})
"""
GIVEN_AGGREGATES = f"""
    unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[],
           $10::bigint[], $11::float8[], $12::float8[], $13::float8[])
      AS given ({KEY}, farm_id, barn_id, count, sum_value, min_value, max_value)
"""
INSERT_AGGREGATES = f"""
    INSERT INTO telemetry_agg AS known
           ({KEY}, farm_id, barn_id, count, sum_value, min_value, max_value, bucket_end_at)
    SELECT given.*, bucket_start_at
             + ('1 ' || CASE "window" WHEN '1m' THEN 'minute' WHEN '1h' THEN 'hour' ELSE 'day' END)::interval
      FROM {GIVEN_AGGREGATES}
    ON CONFLICT ({KEY}) DO UPDATE
"""  # noqa: S608 - our own constants
_MERGE = f"""
    {INSERT_AGGREGATES}
       SET count = known.count + excluded.count,
           -- As in `bounded`. Nothing is multiplied or divided here: a sum that is there already may be too small for it.
           sum_value = CASE WHEN known.sum_value > 0 AND excluded.sum_value > {SUM_MAX} - known.sum_value THEN {SUM_MAX}
                            WHEN known.sum_value < 0 AND excluded.sum_value < -{SUM_MAX} - known.sum_value THEN -{SUM_MAX}
                            WHEN abs(known.sum_value + excluded.sum_value) < {SUM_MIN} THEN 0
                            ELSE known.sum_value + excluded.sum_value END,
           min_value = least(known.min_value, excluded.min_value),
           max_value = greatest(known.max_value, excluded.max_value),
           updated_at = now()
"""
_TOTALS = """
    SELECT (SELECT count(*) FROM streams) AS streams,
           (SELECT coalesce(sum(upper(span) - lower(span)), 0) FROM streams, unnest(received) AS span)::bigint AS in_streams,
           (SELECT coalesce(sum(upper(span) - lower(span)), 0) FROM streams, unnest(lost) AS span)::bigint AS lost,
           ((SELECT coalesce(sum(count), 0) FROM telemetry_agg WHERE "window" = '1d')
            + (SELECT samples FROM retired_samples))::bigint AS stored
"""

NO_CONTENT: Mapping[Block, BlockContent] = {}


async def lock_streams(
    connection: Connection, wanted: Mapping[StreamKey, Origin], limit: StreamLimit | None = None
) -> dict[StreamKey, Coverage]:
    """The rows of these streams, locked until the transaction ends; those not seen before are made.

    Made first and locked after, both in the order of the ids: nobody waits for a new row while holding an old one. Streams that
    would be beyond the limit are neither made nor in the answer.
    """
    if not wanted:
        return {}
    keys = _columns(wanted)
    rows = await connection.fetch(_LOCK_KNOWN, *keys)
    if not rows and limit is not None:
        beyond = await _beyond(connection, wanted, limit)
        wanted = {key: origin for key, origin in wanted.items() if key not in beyond}
        if not wanted:
            return {}
        keys = _columns(wanted)
    if not rows:
        await connection.execute(_CREATE, *_new_streams(wanted))
        rows = await connection.fetch(_LOCK, *keys)
    return {(row["tenant_id"], row["stream_id"]): _coverage(row) for row in rows}


async def read_streams(connection: Connection, keys: Sequence[StreamKey]) -> dict[StreamKey, Coverage]:
    """Those of them that are here, as they are committed, without locking them."""
    rows = await connection.fetch(_READ, [tenant_id for tenant_id, _ in keys], [stream_id for _, stream_id in keys])
    return {(row["tenant_id"], row["stream_id"]): _coverage(row) for row in rows}


async def _beyond(connection: Connection, wanted: Mapping[StreamKey, Origin], limit: StreamLimit) -> set[StreamKey]:
    await connection.execute(_LOCK_OPENING)
    device_ids = [origin.device_id for origin in wanted.values()]
    rows = await connection.fetch(
        _BEYOND_LIMIT, *_columns(wanted), device_ids, limit.of_device, limit.of_tenant, limit.window
    )
    return {(row["tenant_id"], row["stream_id"]) for row in rows}


async def save_coverage(
    connection: Connection, streams: Mapping[StreamKey, Coverage], contents: Mapping[Block, BlockContent] = NO_CONTENT
) -> None:
    """Of streams that this transaction has locked. `contents` are those of the samples that were new."""
    if streams:
        rows = list(streams.values())
        await connection.execute(
            _SAVE,
            *_columns(streams),
            [_multirange(row.received) for row in rows],
            [_multirange(row.lost) for row in rows],
            [row.boot_id for row in rows],
            [None if row.channels is None else msgspec.Raw(msgspec.json.encode(row.channels)) for row in rows],
            [block.tenant_id for block in contents],
            [block.stream_id for block in contents],
            [block.number for block in contents],
            [content.samples for content in contents.values()],
            [content.digest for content in contents.values()],
        )


async def record_loss(connection: Connection, origin: Origin, event_id: UUID, loss: TelemetryLoss) -> None:
    """Once, however often it is told. Another loss under its id is an error: skipping it would leave it out."""
    tag = await connection.execute(
        _LOSS, event_id, origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id, loss.stream_id,
        loss.first_seq, loss.last_seq, loss.count, loss.first_ts, loss.last_ts, loss.reason, loss.dropped_at,
    )  # fmt: skip
    if tag == "INSERT 0 0" and not await connection.fetchval(
        _LOSS_KNOWN, origin.tenant_id, event_id, origin.device_id, loss.stream_id, loss.first_seq, loss.last_seq,
        loss.count, loss.reason,
    ):  # fmt: skip
        raise EventIdReused(f"another loss of this tenant has the id {event_id}")


async def ensure_months(connection: Connection, table: str, months: Sequence[date]) -> None:
    """Partitions are made ahead; this is for a backlog older than them. In the transaction, so a rollback takes it back."""
    for month in months:
        await connection.execute("SELECT ensure_month_partition($1::text::regclass, $2)", table, month)


async def copy_rows(connection: Connection, rows: Sequence[bytes]) -> None:
    await connection.copy_to_table("telemetry_raw", source=as_copy(rows), columns=COLUMNS, format="binary")


async def insert_readings(connection: Connection, rows: Sequence[Row]) -> set[ReadingKey]:
    """The keys that were not here yet. One that is here with other content is an error: skipping it would lose a reading."""
    columns = _columns(rows)
    rows_new = await connection.fetch(_READING, *columns)
    new_keys: set[ReadingKey] = {(row["tenant_id"], row["id"], row["occurred_at"]) for row in rows_new}
    if len(new_keys) < len(rows):
        given = dict(zip(COLUMNS, columns, strict=True))
        reused = await connection.fetchval(_ID_REUSED, *(given[name] for name in _COMPARED))
        if reused is not None:
            raise EventIdReused(f"another reading of this tenant has the id {reused}")
    return new_keys


async def merge_aggregates(connection: Connection, aggregates: Sequence[tuple[Bucket, Tally]]) -> None:
    """`aggregates` comes in the order of its keys: two writers take the rows in one order."""
    if not aggregates:
        return
    aggregates = at_one_place(aggregates)
    await connection.execute(_MERGE, *aggregate_columns(aggregates))


def aggregate_columns(aggregates: Sequence[tuple[Bucket, Tally]]) -> tuple[list[object], ...]:
    """As `unnest` takes them: the key, where the device stood, the tally."""
    tallies = [tally for _, tally in aggregates]
    return (
        *key_columns([bucket for bucket, _ in aggregates]),
        [bucket.origin.farm_id for bucket, _ in aggregates],
        [bucket.origin.barn_id for bucket, _ in aggregates],
        [tally.samples for tally in tallies],
        [bounded(tally.total) for tally in tallies],
        [tally.low for tally in tallies],
        [tally.high for tally in tallies],
    )


def key_columns(buckets: Sequence[Bucket]) -> tuple[list[object], ...]:
    return (
        [bucket.origin.tenant_id for bucket in buckets],
        [bucket.origin.device_id for bucket in buckets],
        [bucket.metric for bucket in buckets],
        [bucket.window for bucket in buckets],
        [from_us(bucket.start_us) for bucket in buckets],
        [bucket.sensor for bucket in buckets],
        [bucket.unit for bucket in buckets],
    )


async def totals(connection: Connection) -> dict[str, int]:
    """How much has come here: from coverage, from daily aggregates and those that retention took, never by counting samples."""
    row = await connection.fetchrow(_TOTALS)
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return dict(row)


def _coverage(row: asyncpg.Record) -> Coverage:
    origin = Origin(row["tenant_id"], row["farm_id"], row["barn_id"], row["device_id"])
    return Coverage(origin, spans_of(row["received"]), spans_of(row["lost"]))


def _new_streams(wanted: Mapping[StreamKey, Origin]) -> list[list[object]]:
    """In the order in which they are locked: by stream, then by tenant."""
    ordered = sorted(wanted.items(), key=lambda one: one[0][::-1])
    return _columns([(*key, origin.farm_id, origin.barn_id, origin.device_id) for key, origin in ordered])


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _multirange(spans: Sequence[Span]) -> str:
    return "{" + ",".join(f"[{first},{end})" for first, end in spans) + "}"


def spans_of(multirange: "Sequence[asyncpg.Range[int]]") -> list[Span]:
    return [(span.lower, span.upper) for span in multirange if span.lower is not None and span.upper is not None]

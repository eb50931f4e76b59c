"""Rows that both tiers have alike under one id, for whoever compares tiers: digests of their days, and what each row says."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from litestar import get
from msgspec.structs import replace

from farmiq.contracts.timestamps import Timestamp
from farmiq.kit.day_digests import SMALLEST_ID, UTC_TIME, DayDigests, Digested, DigestedRow
from farmiq.kit.month_partitions import partitions
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range

_TICK: Final = timedelta(microseconds=1)
_TIMES: Final = f"""
    ', measured from ', {UTC_TIME.format("first_ts")}, ' to ', {UTC_TIME.format("last_ts")},
    ', given up at ', {UTC_TIME.format("dropped_at")}
"""
# What a person discarded in the cloud is the cloud's own record: there is nothing of it at the edge to compare with.
_COMPARED: Final = "(SELECT event_id AS id, * FROM {} WHERE reason <> 'discarded') AS losses"
LOSSES: Final = Digested(
    _COMPARED.format("stream_losses"),
    at="dropped_at",
    state="reason",
    content=f"concat(reason, ': ', count, ' of sequences ', first_seq, ' to ', last_seq, ' of stream ', stream_id, {_TIMES})",
)
STATION_LOSSES: Final = Digested(
    _COMPARED.format("station_losses"),
    at="dropped_at",
    state="reason",
    content=f"""
      concat(reason, ': ', count, CASE WHEN NOT is_count_exact THEN ' or more' END, ', ', pictures, ' pictures', {_TIMES})
    """,
)


READINGS: Final = Digested(
    "(SELECT * FROM telemetry_raw WHERE stream_id IS NULL) AS readings",
    at="occurred_at",
    state="metric_type",
    content=f"""
      concat(metric_type, ' ', metric_value, ' ', unit, ' in ', farm_id, '/', barn_id, ' at ', {UTC_TIME.format("occurred_at")})
    """,
)
_SERIES: Final = "concat_ws('/', device_id, metric_type, sensor, unit, \"window\", extract(epoch FROM bucket_start_at))"
# From device to device through an index: the aggregates of minutes, which are most, are not read. A sum depends on the order in
# which batches were added up, so eight digits of it go into the digest; whoever finds a difference compares the whole of it.
BUCKETS: Final = Digested(
    f"""
    (WITH RECURSIVE measured (device_id) AS (
       (SELECT device_id FROM telemetry_agg WHERE tenant_id = $1 ORDER BY device_id LIMIT 1)
       UNION ALL
       SELECT (SELECT later.device_id FROM telemetry_agg AS later
                WHERE later.tenant_id = $1 AND later.device_id > measured.device_id ORDER BY later.device_id LIMIT 1)
         FROM measured WHERE measured.device_id IS NOT NULL)
     SELECT agg.*
       FROM measured CROSS JOIN LATERAL (
         SELECT md5({_SERIES})::uuid AS id, tenant_id, device_id, metric_type, sensor, unit, "window", bucket_start_at,
                bucket_end_at, updated_at, count, sum_value, min_value, max_value
           FROM telemetry_agg
          WHERE tenant_id = $1 AND device_id = measured.device_id AND "window" IN ('1h', '1d') OFFSET 0) AS agg) AS buckets
    """,  # noqa: S608 - our own constants
    at="bucket_start_at",
    state='"window"',
    content="concat_ws('/', count, to_char(sum_value, '9.99999999EEEE'), min_value, max_value)",
    shown="""
      json_build_array(metric_type, sensor, unit, "window", count, sum_value, min_value, max_value,
        EXISTS (SELECT FROM telemetry_agg_unsent AS waiting
                 WHERE (waiting.tenant_id, waiting.device_id, waiting.metric_type, waiting.sensor, waiting.unit)
                     = (buckets.tenant_id, buckets.device_id, buckets.metric_type, buckets.sensor, buckets.unit)
                   AND waiting.bucket_start_at >= buckets.bucket_start_at
                   AND waiting.bucket_start_at < buckets.bucket_end_at))::text
    """,
)

# What the bus is told of an hour, and analytics makes its hours of. When it changed last says whether it can be on the bus.
TOLD_HOURS: Final = Digested(
    f"(SELECT * FROM {BUCKETS.table} WHERE \"window\" = '1h') AS buckets",  # noqa: S608 - our own constants
    at=BUCKETS.at,
    state="'1h'",
    content="concat_ws('/', count, sum_value / count, min_value, max_value)",
    shown="""
      json_build_array(metric_type, sensor, unit, '1h', count, sum_value / count, min_value, max_value,
        EXISTS (SELECT FROM telemetry_agg_unsent AS waiting
                 WHERE (waiting.tenant_id, waiting.device_id, waiting.metric_type, waiting.sensor, waiting.unit)
                     = (buckets.tenant_id, buckets.device_id, buckets.metric_type, buckets.sensor, buckets.unit)
                   AND waiting."window" = '1h' AND waiting.bucket_start_at = buckets.bucket_start_at),
        extract(epoch FROM clock_timestamp() - updated_at))::text
    """,
)
# A device that stood in two barns within an hour may have two of them: the one that was told last counts.
ANALYTICS_HOURS: Final = Digested(
    f"""
    (SELECT DISTINCT ON (device_id, metric_type, sensor, unit, bucket_start_at) *, md5({_SERIES})::uuid AS id
       FROM (SELECT tenant_id, device_id, metric_type, sensor, unit, '1h'::text AS "window", hour_at AS bucket_start_at, revision,
                    count, mean_value, min_value, max_value FROM analytics_hours WHERE tenant_id = $1) AS hours
      ORDER BY device_id, metric_type, sensor, unit, bucket_start_at, revision DESC) AS hours
    """,  # noqa: S608 - our own constants
    at="bucket_start_at",
    state="'1h'",
    content="concat_ws('/', count, mean_value, min_value, max_value)",
    shown="json_build_array(metric_type, sensor, unit, '1h', count, mean_value, min_value, max_value)::text",
)

KeptSince = Callable[[Connection], Awaitable[datetime | None]]


class AfterRecord(NamedTuple):
    at: Timestamp
    id: UUID


class RecordPage(msgspec.Struct, frozen=True):
    records: list[DigestedRow]
    next: str | None


def measured_record_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    """What every owner of measurements has: losses and aggregates for good or until its retention, readings by the month."""
    kinds = {"losses": LOSSES, "station-losses": STATION_LOSSES, "buckets": BUCKETS}
    return [
        *record_routes(pool, guards, kinds),
        *record_routes(pool, guards, {"readings": READINGS}, _oldest_month),
    ]


def record_routes(
    pool: Pool, guards: Sequence[Any], kinds: Mapping[str, Digested], kept_since: KeptSince | None = None
) -> list[Any]:
    """`kept_since`: since when no retention has deleted any."""
    return [route for kind, digested in kinds.items() for route in _routes_of(pool, guards, kind, digested, kept_since)]


async def _oldest_month(connection: Connection) -> datetime | None:
    months = await partitions(connection, "telemetry_raw")
    return months[0].lower_at if months else None


def _routes_of(
    pool: Pool, guards: Sequence[Any], kind: str, digested: Digested, kept_since: KeptSince | None
) -> list[Any]:
    @get(f"/api/v1/records/{kind}/days", guards=guards, tags=["audit"], operation_id=f"days_of_{kind}")
    async def days(tenant_id: Tenant, device_id: AnyDevice = None, since: From = None, until: To = None) -> DayDigests:
        """How many there are of each day, by device, with a digest of what they say: for comparing tiers."""
        async with read_as(pool, tenant_id) as connection:
            found = await digested.days(connection, tenant_id, device_id, *time_range(since, until))
            return found if kept_since is None else replace(found, kept_since=await kept_since(connection))

    @get(f"/api/v1/records/{kind}", guards=guards, tags=["audit"], operation_id=f"records_of_{kind}")
    async def records(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 1000,
    ) -> RecordPage:
        """Each with what goes into the digest of its day, in the order of time."""
        lower, upper = time_range(since, until)
        begin: tuple[datetime, UUID] = position(after, AfterRecord) or (lower - _TICK, SMALLEST_ID)
        async with read_as(pool, tenant_id) as connection:
            rows = await digested.rows(connection, tenant_id, device_id, begin, upper, limit)
        return RecordPage(rows, cursor(AfterRecord(rows[-1].at, rows[-1].id)) if len(rows) == limit else None)

    return [days, records]

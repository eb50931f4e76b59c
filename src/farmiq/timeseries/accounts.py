"""What a tier says it has of some devices, for whoever compares tiers: coverage, counts and rows of one moment.

Everything is read in one snapshot. Coverage, the aggregates and the rows are written in one transaction, so within a snapshot
they have to agree; between two tiers there may be something on its way.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec

from farmiq.kit.month_partitions import Partition, partitions
from farmiq.kit.postgres import Connection
from farmiq.timeseries.coverage import Span
from farmiq.timeseries.hours import HourRow, hours
from farmiq.timeseries.rolled_up import WrongBucket, wrong_buckets
from farmiq.timeseries.store import spans_of
from farmiq.timeseries.stored_rows import StoredRows, stored_rows

_TENANTS: Final = """
    WITH RECURSIVE tenant (tenant_id) AS (
      (SELECT tenant_id FROM {table} ORDER BY tenant_id LIMIT 1)
      UNION ALL
      SELECT (SELECT later.tenant_id FROM {table} AS later WHERE later.tenant_id > tenant.tenant_id ORDER BY 1 LIMIT 1)
        FROM tenant WHERE tenant.tenant_id IS NOT NULL)
    SELECT tenant_id FROM tenant WHERE tenant_id IS NOT NULL
"""
_STREAMS: Final = """
    SELECT stream_id, device_id, received, lost, first_seen_at, last_seen_at,
           coalesce((SELECT range_agg(int8range(first_seq, last_seq, '[]')) FROM stream_losses AS loss
                      WHERE loss.tenant_id = streams.tenant_id AND loss.stream_id = streams.stream_id), '{}') AS declared
      FROM streams
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) ORDER BY device_id, stream_id
"""
# A month begins with a day, so a day lies in one month or in none.
_SAMPLES: Final = """
    SELECT device_id, sum(count)::bigint AS samples,
           coalesce(sum(count) FILTER (WHERE EXISTS (
             SELECT FROM unnest($3::timestamptz[], $4::timestamptz[]) AS month (lower_at, upper_at)
              WHERE bucket_start_at >= lower_at AND bucket_start_at < upper_at)), 0)::bigint AS in_months
      FROM telemetry_agg
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND "window" = '1d'
     GROUP BY device_id
"""
_SINGLE_SINCE: Final = """
    SELECT device_id, count(*) AS readings FROM telemetry_raw
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND stream_id IS NULL AND occurred_at >= $3 AND occurred_at < $4
     GROUP BY device_id
"""
_RETIRED: Final = "SELECT samples FROM retired_samples"


class StreamAccount(msgspec.Struct, frozen=True):
    """Ranges are half-open: from the first sequence on, and before the second. `lost` is what the coverage counts as filled
    because it was declared lost, `declared` what the records of losses name; null in an answer of 0.1.0."""

    stream_id: UUID
    received: list[Span]
    lost: list[Span]
    first_seen_at: datetime
    last_seen_at: datetime
    rows: StoredRows | None = None
    declared: list[Span] | None = None


class DeviceAccount(msgspec.Struct, frozen=True):
    """`samples` are those that the aggregates count, single readings too; `samples_in_months` those of them whose rows no
    retention has dropped. `single_rows` and the rows of streams are there when rows were counted. `single_since` are the single
    readings from the moment on that was asked for: without them, two tiers can be compared while more arrive. `wrong_buckets`:
    aggregates that are not what is below them, when every sequence was looked at."""

    device_id: str
    samples: int
    samples_in_months: int
    streams: list[StreamAccount]
    hours: list[HourRow]
    undated_missing: int = 0
    single_rows: int | None = None
    single_since: int = 0
    wrong_buckets: list[WrongBucket] | None = None


class Accounts(msgspec.Struct, frozen=True):
    """`retired_samples` are in aggregates that retention has taken, of all tenants and for ever."""

    devices: list[DeviceAccount]
    retired_samples: int


class Depth(msgspec.Struct, frozen=True):
    """Whether rows are counted: those of devices with at most so many samples in all, and whether range by range."""

    rows_max: int = 0
    is_exact: bool = False


async def tenants(connection: Connection) -> list[str]:
    found = [
        row["tenant_id"]
        for table in ("streams", "telemetry_agg")
        for row in await connection.fetch(_TENANTS.format(table=table))
    ]
    return sorted(set(found))


async def accounts(
    connection: Connection,
    *,
    tenant_id: str,
    device_ids: Sequence[str],
    since: datetime,
    until: datetime,
    depth: Depth,
    singles_since: datetime | None = None,
) -> Accounts:
    """Of these devices. Their hours are those between the two times; everything else is of any time."""
    months = await partitions(connection, "telemetry_raw")
    streams = await connection.fetch(_STREAMS, tenant_id, list(device_ids))
    samples = await _samples(connection, tenant_id, device_ids, months)
    found = await hours(connection, tenant_id=tenant_id, device_ids=device_ids, since=since, until=until)
    received = {row["stream_id"]: spans_of(row["received"]) for row in streams}
    rows = None
    if sum(in_months for _, in_months in samples.values()) <= depth.rows_max:
        rows = await stored_rows(
            connection, tenant_id=tenant_id, device_ids=device_ids, received=received, is_exact=depth.is_exact
        )
    late = {}
    if singles_since is not None:
        counted = await connection.fetch(_SINGLE_SINCE, tenant_id, list(device_ids), singles_since, until)
        late = {row["device_id"]: row["readings"] for row in counted}
    retired = await connection.fetchval(_RETIRED)
    wrong = await wrong_buckets(connection, tenant_id, device_ids, months) if rows and depth.is_exact else None
    of_stream: Mapping[UUID, StoredRows] = rows.streams if rows else {}
    undated = {one.device_id: one.missing for one in found.undated}
    hours_of: dict[str, list[HourRow]] = {device_id: [] for device_id in device_ids}
    for hour in found.hours:
        hours_of[hour.device_id].append(hour)
    return Accounts(
        [
            DeviceAccount(
                device_id,
                *samples.get(device_id, (0, 0)),
                [_stream(dict(row), of_stream) for row in streams if row["device_id"] == device_id],
                hours_of[device_id],
                undated.get(device_id, 0),
                rows.single.get(device_id, 0) if rows else None,
                late.get(device_id, 0),
                None if wrong is None else wrong.get(device_id, []),
            )
            for device_id in device_ids
        ],
        retired,
    )


async def _samples(
    connection: Connection, tenant_id: str, device_ids: Sequence[str], months: Sequence[Partition]
) -> dict[str, tuple[int, int]]:
    bounds = [month.lower_at for month in months], [month.upper_at for month in months]
    rows = await connection.fetch(_SAMPLES, tenant_id, list(device_ids), *bounds)
    return {row["device_id"]: (row["samples"], row["in_months"]) for row in rows}


def _stream(row: dict[str, Any], rows: Mapping[UUID, StoredRows]) -> StreamAccount:
    return StreamAccount(
        stream_id=row["stream_id"],
        received=spans_of(row["received"]),
        lost=spans_of(row["lost"]),
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
        rows=rows.get(row["stream_id"]),
        declared=spans_of(row["declared"]),
    )

"""Aggregates for a file: series after series, each oldest first."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

import msgspec

from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import aggregates
from farmiq.timeseries.export import PAGE_ROWS
from farmiq.timeseries.export_columns import Column, Pages
from farmiq.timeseries.paging import AfterBucket, AfterSeries

COLUMNS: Final = (
    Column("tenant_id", "text"), Column("device_id", "text"), Column("metric_type", "text"), Column("window", "text"),
    Column("bucket_start_at", "time"), Column("bucket_end_at", "time"), Column("sensor", "text"), Column("unit", "text"),
    Column("count", "int"), Column("sum_value", "float"), Column("avg_value", "float"), Column("min_value", "float"),
    Column("max_value", "float"),
)  # fmt: skip

SERIES_AT_ONCE: Final = 1000


class WantedBuckets(msgspec.Struct, frozen=True):
    tenant_id: str
    window: aggregates.Window
    since: datetime
    until: datetime
    device_id: str | None = None
    metric: str | None = None
    sensor: str | None = None
    is_merged: bool = False


async def bucket_pages(pool: Pool, wanted: WantedBuckets) -> Pages:
    yield []  # an empty file is a file all the same
    async for device_id, metric in _metrics(pool, wanted):
        after: AfterBucket | None = None
        while True:
            rows = await _buckets(pool, wanted, device_id, metric, after)
            yield [_row(wanted, device_id, metric, row) for row in rows]
            if len(rows) < PAGE_ROWS:
                break
            after = AfterBucket(rows[-1].bucket_start_at, rows[-1].sensor or "", rows[-1].unit)


async def _metrics(pool: Pool, wanted: WantedBuckets) -> AsyncIterator[tuple[str, str]]:
    """Each device and metric that there is, once. They are few beside their buckets."""
    told: tuple[str, str] | None = None
    after: AfterSeries | None = None
    while True:
        async with read_as(pool, wanted.tenant_id) as connection:
            found = await aggregates.series(
                connection, tenant_id=wanted.tenant_id, device_id=wanted.device_id, after=after, limit=SERIES_AT_ONCE
            )
        for one in found:
            if wanted.metric in (None, one.metric_type) and (one.device_id, one.metric_type) != told:
                told = (one.device_id, one.metric_type)
                yield told
        if len(found) < SERIES_AT_ONCE:
            return
        after = AfterSeries(found[-1].device_id, found[-1].metric_type, found[-1].sensor, found[-1].unit)


async def _buckets(
    pool: Pool, wanted: WantedBuckets, device_id: str, metric: str, after: AfterBucket | None
) -> list[aggregates.BucketRow]:
    async with read_as(pool, wanted.tenant_id) as connection:
        return await aggregates.buckets(
            connection,
            tenant_id=wanted.tenant_id,
            device_id=device_id,
            metric=metric,
            window=wanted.window,
            since=wanted.since,
            until=wanted.until,
            sensor=wanted.sensor,
            is_merged=wanted.is_merged,
            after=after,
            limit=PAGE_ROWS,
        )


def _row(wanted: WantedBuckets, device_id: str, metric: str, row: aggregates.BucketRow) -> tuple[Any, ...]:
    return (
        wanted.tenant_id, device_id, metric, wanted.window, row.bucket_start_at, row.bucket_end_at, row.sensor, row.unit,
        row.count, row.sum_value, row.avg_value, row.min_value, row.max_value,
    )  # fmt: skip

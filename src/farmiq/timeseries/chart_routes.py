"""Aggregates for charts, and which metrics there are to draw."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream

from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import aggregates
from farmiq.timeseries.bucket_export import COLUMNS, WantedBuckets, bucket_pages
from farmiq.timeseries.export import AnyFormat, Exports, wanted
from farmiq.timeseries.paging import AfterBucket, AfterSeries, cursor
from farmiq.timeseries.parameters import (
    After,
    AnyDevice,
    AnyMetric,
    AnySensor,
    From,
    Limit,
    Tenant,
    To,
    position,
    refused,
    time_range,
)

AnyWindow = Literal["1m", "1h", "1d", "auto"]
ChartLimit = Annotated[int, QueryParameter(ge=1, le=10_000)]


class AggregatePage(msgspec.Struct, frozen=True):
    """`window` is the one that was asked for, or chosen. `next` continues after the last bucket; null on the last page."""

    metric: str
    window: aggregates.Window
    buckets: list[aggregates.BucketRow]
    next: str | None


class MetricPage(msgspec.Struct, frozen=True):
    metrics: list[aggregates.SeriesRow]
    next: str | None


def chart_routes(pool: Pool, guards: Sequence[Any], exports: Exports) -> list[Any]:
    @get("/api/v1/telemetry/aggregates", guards=guards, tags=["telemetry"])
    async def telemetry_aggregates(
        request: Request[Any, Any, Any],
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        metric: AnyMetric = None,
        sensor: AnySensor = None,
        window: FromQuery[AnyWindow] = "auto",
        merge_sensors: FromQuery[bool] = False,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: ChartLimit = 2000,
        kind: AnyFormat = None,
    ) -> AggregatePage | Stream:
        """One metric of one device for a chart, oldest bucket first, beginning with the bucket that holds `from`.

        `auto` takes the finest window that gives at most 1,500 points. Each sensor has its own buckets unless
        `merge_sensors` puts those of one unit together: their counts and sums are added, and the average follows. As a file
        (`format=csv`, `arrow` or `parquet`) all buckets come at once, of every device and metric unless they are given.
        """
        if sensor is not None and merge_sensors:
            raise refused("Give either `sensor` or `merge_sensors`")
        lower, upper = time_range(since, until)
        chosen = aggregates.window_for(lower, upper) if window == "auto" else window
        if (file_kind := wanted(kind, request.headers.get("accept", ""))) != "json":
            asked = WantedBuckets(tenant_id, chosen, lower, upper, device_id, metric, sensor, merge_sensors)
            return await exports.answer(file_kind, f"aggregates-{tenant_id}", COLUMNS, bucket_pages(pool, asked))
        if device_id is None or metric is None:
            raise refused("A chart is of one metric of one device: give both, or ask for a file with `format`")
        async with read_as(pool, tenant_id) as connection:
            rows = await aggregates.buckets(
                connection,
                tenant_id=tenant_id,
                device_id=device_id,
                metric=metric,
                window=chosen,
                since=lower,
                until=upper,
                sensor=sensor,
                is_merged=merge_sensors,
                after=position(after, AfterBucket),
                limit=limit,
            )
        return AggregatePage(metric, chosen, rows, _next_bucket(rows) if len(rows) == limit else None)

    @get("/api/v1/telemetry/metrics", guards=guards, tags=["telemetry"])
    async def telemetry_metrics(
        tenant_id: Tenant, device_id: AnyDevice = None, after: After = None, limit: Limit = 1000
    ) -> MetricPage:
        """Which metrics, sensors and units a tenant or one device has, and the first and last day of each."""
        async with read_as(pool, tenant_id) as connection:
            rows = await aggregates.series(
                connection, tenant_id=tenant_id, device_id=device_id, after=position(after, AfterSeries), limit=limit
            )
        return MetricPage(rows, _next_series(rows[-1]) if len(rows) == limit else None)

    return [telemetry_aggregates, telemetry_metrics]


def _next_bucket(rows: Sequence[aggregates.BucketRow]) -> str:
    last = rows[-1]
    return cursor(AfterBucket(last.bucket_start_at, last.sensor or "", last.unit))


def _next_series(last: aggregates.SeriesRow) -> str:
    return cursor(AfterSeries(last.device_id, last.metric_type, last.sensor, last.unit))

"""The query API over measurements, the same at the edge and in the cloud. Every route but the totals names its tenant."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from litestar import Request, get
from litestar.response import Stream

from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.rested import Rested
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.timeseries import queries, store
from farmiq.timeseries.account_routes import account_routes
from farmiq.timeseries.chart_routes import chart_routes
from farmiq.timeseries.content_routes import content_routes
from farmiq.timeseries.export import AnyFormat, Exports, wanted
from farmiq.timeseries.hour_routes import hour_routes
from farmiq.timeseries.loss_routes import loss_routes
from farmiq.timeseries.paging import AfterReading, cursor
from farmiq.timeseries.parameters import (
    After,
    AnyBarn,
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
from farmiq.timeseries.reading_export import COLUMNS, Wanted, reading_pages
from farmiq.timeseries.record_routes import measured_record_routes
from farmiq.timeseries.span_routes import span_routes
from farmiq.timeseries.stream_routes import stream_routes
from farmiq.timeseries.summary_routes import summary_routes

AnyRequest = Request[Any, Any, Any]


class Totals(msgspec.Struct, frozen=True, omit_defaults=True):
    """`samples_stored` counts single readings too, which no stream covers.

    `samples_counted_elsewhere` are in aggregates that an edge sent, and nowhere here as samples.
    """

    samples_stored: int
    samples_in_streams: int
    samples_lost: int
    streams: int
    samples_counted_elsewhere: int = 0


class ReadingPage(msgspec.Struct, frozen=True):
    """`next` continues where this page stopped; only a null one is the end. A page of a rare metric may be short, or empty."""

    readings: list[queries.ReadingRow]
    next: str | None


CountSamples = Callable[[Connection], Awaitable[dict[str, int]]]


def measurement_routes(
    pool: Pool,
    guards: Sequence[Any],
    *,
    admin_guards: Sequence[Any],
    totals: CountSamples = store.totals,
    exports: Exports | None = None,
) -> list[Any]:
    """`admin_guards` stand before what is of all tenants. `exports` is shared with a service's other files."""
    files = exports or Exports()
    return [
        stats_route(pool, admin_guards, totals),
        reading_route(pool, guards, files),
        *chart_routes(pool, guards, files),
        *stream_routes(pool, guards),
        *hour_routes(pool, guards),
        *loss_routes(pool, guards),
        *span_routes(pool, guards),
        *summary_routes(pool, guards),
        *account_routes(pool, guards, admin_guards),
        *content_routes(pool, guards),
        *measured_record_routes(pool, guards),
    ]


def stats_route(pool: Pool, admin_guards: Sequence[Any], totals: CountSamples) -> Any:
    async def count() -> Totals:
        async with read_as(pool, ALL_TENANTS) as connection:
            found = await totals(connection)
        return Totals(
            found["stored"], found["in_streams"], found["lost"], found["streams"], found.get("counted_elsewhere", 0)
        )

    # A console asks every second, and of ten thousand devices there are millions of days to add up.
    counted = Rested(count, Clock(), rest_seconds=0.0)

    @get("/api/v1/telemetry/stats", guards=admin_guards, tags=["telemetry"])
    async def stats() -> Totals:
        """How much is stored and declared lost, over all tenants. Not newer than twenty times as long as counting takes."""
        return await counted.get()

    return stats


def reading_route(pool: Pool, guards: Sequence[Any], files: Exports) -> Any:
    @get("/api/v1/telemetry/readings", guards=guards, tags=["telemetry"])
    async def readings(
        request: AnyRequest,
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        barn_id: AnyBarn = None,
        metric: AnyMetric = None,
        sensor: AnySensor = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
        kind: AnyFormat = None,
    ) -> ReadingPage | Stream:
        """One device's samples, newest first: the 24 hours up to `to` (default: now) unless `from` says otherwise.

        Page on by giving `next` as `after`. As a file (`format=csv`, `arrow` or `parquet`) all of them come at once, oldest
        first, and of every device unless `device_id` or `barn_id` says which; `after` and `limit` mean nothing then.
        """
        if sensor is not None and metric is None:
            raise refused("`sensor` belongs to a metric: give `metric` too")
        lower, upper = time_range(since, until)
        if (file_kind := wanted(kind, request.headers.get("accept", ""))) != "json":
            asked = Wanted(tenant_id, lower, upper, device_id, barn_id, metric, sensor)
            return await files.answer(file_kind, f"readings-{tenant_id}", COLUMNS, reading_pages(pool, asked))
        if device_id is None or barn_id is not None:
            raise refused("Pages are of one device: give `device_id` and no `barn_id`, or ask for a file with `format`")
        async with read_as(pool, tenant_id) as connection:
            page = await queries.readings(
                connection,
                tenant_id=tenant_id,
                device_id=device_id,
                since=lower,
                until=upper,
                metric=metric,
                sensor=sensor,
                before=position(after, AfterReading),
                limit=limit,
            )
        return ReadingPage(page.rows, None if page.stopped_at is None else cursor(page.stopped_at))

    return readings

"""The query API over measurements, the same at the edge and in the cloud. Every route but the totals names its tenant."""

from typing import Any

import msgspec
from litestar import get

from farmiq.kit.http_server import require_bearer
from farmiq.kit.postgres import Pool
from farmiq.timeseries import queries, store
from farmiq.timeseries.asking import asking
from farmiq.timeseries.chart_routes import chart_routes
from farmiq.timeseries.paging import AfterReading, cursor
from farmiq.timeseries.parameters import (
    After,
    AnyMetric,
    AnySensor,
    Device,
    From,
    Limit,
    Tenant,
    To,
    position,
    refused,
    time_range,
)
from farmiq.timeseries.stream_routes import stream_routes


class Totals(msgspec.Struct, frozen=True):
    """`samples_stored` counts single readings too, which no stream covers."""

    samples_stored: int
    samples_in_streams: int
    samples_lost: int
    streams: int


class ReadingPage(msgspec.Struct, frozen=True):
    """`next` continues where this page stopped; only a null one is the end. A page of a rare metric may be short, or empty."""

    readings: list[queries.ReadingRow]
    next: str | None


def measurement_routes(pool: Pool, admin_token: str) -> list[Any]:
    guards = [require_bearer(admin_token)]

    @get("/api/v1/telemetry/stats", guards=guards, tags=["telemetry"])
    async def stats() -> Totals:
        """How much is stored and declared lost, over all tenants."""
        async with asking(pool) as connection:
            found = await store.totals(connection)
        return Totals(found["stored"], found["in_streams"], found["lost"], found["streams"])

    @get("/api/v1/telemetry/readings", guards=guards, tags=["telemetry"])
    async def readings(
        tenant_id: Tenant,
        device_id: Device,
        metric: AnyMetric = None,
        sensor: AnySensor = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
    ) -> ReadingPage:
        """One device's samples, newest first: the 24 hours up to `to` (default: now) unless `from` says otherwise.

        Page on by giving `next` as `after`.
        """
        if sensor is not None and metric is None:
            raise refused("`sensor` belongs to a metric: give `metric` too")
        lower, upper = time_range(since, until)
        async with asking(pool) as connection:
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

    return [stats, readings, *chart_routes(pool, guards), *stream_routes(pool, guards)]

"""KPIs and anomalies for whoever may read the tenant."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, get
from litestar.params import FromQuery, QueryParameter
from litestar.response import Stream

from farmiq.cloud.analytics_service import queries
from farmiq.cloud.analytics_service.anomalies.found import Kind, Severity
from farmiq.cloud.analytics_service.days import Calendar
from farmiq.cloud.analytics_service.kpis import Scope
from farmiq.cloud.analytics_service.queries import (
    AfterAnomaly,
    AfterKpi,
    AnomalyRow,
    Asked,
    KpiRow,
    after_anomaly,
    after_kpi,
)
from farmiq.cloud.analytics_service.result_files import ANOMALY_COLUMNS, KPI_COLUMNS, anomaly_pages, kpi_pages
from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import EARLIEST
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.export import AnyFormat, Exports, wanted
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range
from farmiq.timeseries.record_routes import ANALYTICS_HOURS, record_routes

AnyId = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyBatch = Annotated[
    str | None,
    QueryParameter(pattern=rf"^\Z|{ID_PATTERN}", max_length=64, description="Empty: animals without a batch"),
]
AnyScope = Annotated[
    Scope | None, QueryParameter(name="scope", description="Rows about barns or about batches; both when left out")
]
InState = Annotated[Literal["open", "cleared", "any"], QueryParameter(name="state")]
CLEARED = {"open": False, "cleared": True, "any": None}
DAYS_SHOWN = 30


class KpiPage(msgspec.Struct, frozen=True):
    """`next` continues after the last row; null on the last page. Days are those of `timezone`."""

    timezone: str
    kpis: list[KpiRow]
    next: str | None


class AnomalyPage(msgspec.Struct, frozen=True):
    timezone: str
    anomalies: list[AnomalyRow]
    next: str | None


def routes(pool: Pool, calendar: Calendar, guards: Sequence[Any], clock: Clock, hours_days: int) -> list[Any]:
    """`hours_days`: how long hours are kept."""
    exports = Exports(clock)

    async def kept_since(_connection: Connection) -> datetime:
        return clock.now() - timedelta(days=hours_days)

    return [
        *record_routes(pool, guards, {"hours": ANALYTICS_HOURS}, kept_since),
        kpi_route(pool, calendar, guards, clock, exports),
        anomaly_route(pool, calendar, guards, clock, exports),
    ]


def kpi_route(pool: Pool, calendar: Calendar, guards: Sequence[Any], clock: Clock, exports: Exports) -> Any:
    @get("/api/v1/analytics/kpis", guards=guards, tags=["analytics"])
    async def kpis(
        request: Request[Any, Any, Any],
        tenant_id: Tenant,
        farm_id: AnyId = None,
        barn_id: AnyId = None,
        batch_id: AnyBatch = None,
        about: AnyScope = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 500,
        file_kind: AnyFormat = None,
    ) -> KpiPage | Stream:
        """What each day came to, the oldest first: one row for the barn and one for each batch that was weighed on the day.

        All days that lie at least partly in the range; the last 30 unless `from` says otherwise. As a file (`format=csv`,
        `arrow` or `parquet`) they come at once.
        """
        first, last = _days(calendar, clock, since, until)
        asked = Asked(
            tenant_id=tenant_id,
            first=first,
            last=last,
            farm_id=farm_id,
            barn_id=barn_id,
            batch_id=batch_id,
            scope=_scope(about, batch_id),
        )
        if (chosen := wanted(file_kind, request.headers.get("accept", ""))) != "json":
            return await exports.answer(chosen, f"kpis-{tenant_id}", KPI_COLUMNS, kpi_pages(pool, asked))
        async with read_as(pool, tenant_id) as connection:
            rows = await queries.kpis(connection, asked, position(after, AfterKpi), limit)
        return KpiPage(calendar.zone.key, rows, cursor(after_kpi(rows[-1])) if len(rows) == limit else None)

    return kpis


def anomaly_route(pool: Pool, calendar: Calendar, guards: Sequence[Any], clock: Clock, exports: Exports) -> Any:
    @get("/api/v1/analytics/anomalies", guards=guards, tags=["analytics"])
    async def anomalies(
        request: Request[Any, Any, Any],
        tenant_id: Tenant,
        farm_id: AnyId = None,
        barn_id: AnyId = None,
        batch_id: AnyBatch = None,
        device_id: AnyDevice = None,
        kind: FromQuery[Kind | None] = None,
        severity: FromQuery[Severity | None] = None,
        having: InState = "open",
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
        file_kind: AnyFormat = None,
    ) -> AnomalyPage | Stream:
        """What was not as it should be, the newest day first, each with a sentence and the rows that show it.

        One that late data have explained is `cleared`, and shown only when it is asked for.
        """
        first, last = _days(calendar, clock, since, until)
        asked = Asked(
            tenant_id=tenant_id,
            first=first,
            last=last,
            farm_id=farm_id,
            barn_id=barn_id,
            batch_id=batch_id,
            device_id=device_id,
            kind=kind,
            severity=severity,
            is_cleared=CLEARED[having],
        )
        if (chosen := wanted(file_kind, request.headers.get("accept", ""))) != "json":
            return await exports.answer(chosen, f"anomalies-{tenant_id}", ANOMALY_COLUMNS, anomaly_pages(pool, asked))
        async with read_as(pool, tenant_id) as connection:
            rows = await queries.anomalies(connection, asked, position(after, AfterAnomaly), limit)
        return AnomalyPage(calendar.zone.key, rows, cursor(after_anomaly(rows[-1])) if len(rows) == limit else None)

    return anomalies


def _days(calendar: Calendar, clock: Clock, since: datetime | None, until: datetime | None) -> tuple[date, date]:
    """The first and the last day that lie at least partly in the range."""
    first_at, end_at = time_range(since, until or clock.now())
    if since is None:
        first_at = end_at - min(end_at - EARLIEST, timedelta(days=DAYS_SHOWN))
    return calendar.day_of(first_at), calendar.day_of(end_at - timedelta(microseconds=1))


def _scope(scope: Scope | None, batch_id: str | None) -> Scope | None:
    """Who names a batch, be it that of animals without one, does not mean the barn."""
    return "batch" if scope is None and batch_id is not None else scope

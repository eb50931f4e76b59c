"""How the animals grow and how they fare: a figure a day, and what was not as it should be."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from litestar import Response, get
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath, QueryParameter
from msgspec import Struct

from farmiq.console.addresses import address, linker
from farmiq.console.chart import Chart
from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.growth.answers import Anomaly, AnomalyPage, Kpi, KpiPage
from farmiq.console.growth.figures import CSV_COLUMNS, PLANS, chart_of, row_of
from farmiq.console.neighbours import Away, Refused
from farmiq.console.ranges import LENGTHS, TimeRange, time_range
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.http_server import ApiError

SERVICE: Final = "cloud-analytics-service"
LENGTH: Final = "31d"
ROWS_SHOWN: Final = 200
# A row is up to a kilobyte, and an anomaly with its evidence ten: pages that stay well below what an answer may have.
KPI_PAGE: Final = 1500
KPI_PAGES_MAX: Final = 5
ANOMALIES_SHOWN: Final = 50
ANOMALY_PAGE: Final = 200
CSV_PAGES_MAX: Final = 200
ANOMALY_COLUMNS: Final = (
    "id", "day", "farm_id", "barn_id", "kind", "severity", "device_id", "metric", "sensor", "batch_id", "start_at", "end_at",
    "explanation", "evidence_count", "detected_at", "cleared_at",
)  # fmt: skip
CHOSEN_LENGTHS: Final = {name: LENGTHS[name] for name in ("7d", "31d", "1y")}

AnyId = Annotated[str, QueryParameter(pattern=rf"^\Z|{ID_PATTERN}", max_length=64)]
Per = Annotated[Literal["batch", "barn"], QueryParameter()]
OfState = Annotated[Literal["open", "cleared", "any"], QueryParameter(name="anomalies")]
AnyLength = Annotated[str | None, QueryParameter(name="range", max_length=8)]
At = Annotated[datetime | None, QueryParameter()]


class Asked(Struct, frozen=True, kw_only=True):
    per: str
    barn: str
    batch: str
    state: str
    time: TimeRange

    def parameters(self, *, is_fixed: bool = False) -> dict[str, Any]:
        is_fixed = is_fixed or self.time.name is None
        return {
            "per": None if self.per == "batch" else self.per,
            "barn": self.barn,
            "batch": self.batch,
            "anomalies": None if self.state == "open" else self.state,
            "range": None if is_fixed else self.time.name,
            "since": self.time.since.isoformat() if is_fixed else None,
            "until": self.time.until.isoformat() if is_fixed else None,
        }

    def question(self) -> dict[str, str | None]:
        return {
            "barn_id": self.barn or None,
            "from": self.time.since.isoformat(),
            "to": self.time.until.isoformat(),
        }


def routes(desk: Desk) -> list[Any]:
    async def asked_for(
        per: Per = "batch",
        barn: AnyId = "",
        batch: AnyId = "",
        having: OfState = "open",
        length: AnyLength = None,
        since: At = None,
        until: At = None,
    ) -> Asked:
        time = time_range(length, since, until, desk.clock.now(), default=LENGTH)
        return Asked(per=per, barn=barn, batch=batch, state=having, time=time)

    given = {"asked": Provide(asked_for)}

    @get("/growth", dependencies=given)
    async def growth(request: AnyRequest, asked: NamedDependency[Asked]) -> Page:
        kpis: KpiPage | None = None
        anomalies: AnomalyPage | None = None
        trouble: Away | Refused | None = None
        try:
            kpis = await _kpis(desk, request, asked)
            anomalies = await _anomalies(desk, request, asked, ANOMALIES_SHOWN, None)
        except (Away, Refused) as error:
            trouble = error
        fixed = asked.parameters(is_fixed=True)
        rows = kpis.kpis if kpis else []
        return desk.show(
            request,
            "growth.html",
            asked=asked,
            trouble=trouble,
            timezone=kpis.timezone if kpis else "UTC",
            rows=_with_barns(rows, asked.per),
            rows_shown=ROWS_SHOWN,
            barns=sorted({row.barn_id for row in rows} | ({asked.barn} - {""})),
            batches=sorted({row.batch_id for row in rows if row.batch_id} | ({asked.batch} - {""})),
            anomalies=anomalies,
            plans=PLANS,
            lengths=CHOSEN_LENGTHS,
            link=linker("/growth", asked.parameters()),
            data_address=lambda name: address(f"/growth/data/{name}", asked.parameters()),
            csv_address=address("/growth/figures.csv", fixed),
            anomalies_csv=address("/growth/anomalies.csv", fixed),
            permalink=address("/growth", fixed),
        )

    return [growth, *figure_routes(desk, given)]


def figure_routes(desk: Desk, given: dict[str, Provide]) -> list[Any]:
    @get("/growth/data/{name:str}", dependencies=given)
    async def data(request: AnyRequest, name: FromPath[str], asked: NamedDependency[Asked]) -> Chart:
        if name not in PLANS:
            raise ApiError(404, "unknown_chart", "There is no such chart")
        try:
            page = await _kpis(desk, request, asked)
        except (Away, Refused) as error:
            return Chart(
                title=PLANS[name].title, x="day", lines=[], summary="Nothing can be shown.", notes=[str(error)]
            )
        return chart_of(name, page.kpis, asked.per, page.timezone, (asked.time.since, asked.time.until))

    @get("/growth/figures.csv", dependencies=given)
    async def figures(request: AnyRequest, asked: NamedDependency[Asked]) -> Response[bytes]:
        page = await _kpis(desk, request, asked, CSV_PAGES_MAX)
        return csv_response("growth", CSV_COLUMNS, map(row_of, page.kpis), has_more=page.next is not None)

    @get("/growth/anomalies.csv", dependencies=given)
    async def anomalies_listed(request: AnyRequest, asked: NamedDependency[Asked]) -> Response[bytes]:
        found, has_more = await _all_anomalies(desk, request, asked)
        rows = (
            (
                one.id, one.day.isoformat(), one.farm_id, one.barn_id, one.kind, one.severity, one.device_id, one.metric_type,
                one.sensor, one.batch_id, one.start_at, one.end_at, one.explanation, one.evidence_count, one.detected_at,
                one.cleared_at,
            )
            for one in found
        )  # fmt: skip
        return csv_response("anomalies", ANOMALY_COLUMNS, rows, has_more=has_more)

    return [data, figures, anomalies_listed]


def _with_barns(rows: list[Kpi], scope: str) -> list[tuple[Kpi, Kpi]]:
    """Newest first, each with the barn of that day: its climate and its data are those of the batches in it."""
    barns = {(row.farm_id, row.barn_id, row.day): row for row in rows if row.scope == "barn"}
    shown = [row for row in reversed(rows) if row.scope == scope][:ROWS_SHOWN]
    return [(row, barns.get((row.farm_id, row.barn_id, row.day), row)) for row in shown]


async def _kpis(desk: Desk, request: AnyRequest, asked: Asked, pages_max: int = KPI_PAGES_MAX) -> KpiPage:
    """Rows of barns and of batches together. With a batch: of that batch, and of the barns, whose climate it lives in."""
    rows: list[Kpi] = []
    page = KpiPage("UTC", [])
    for _ in range(pages_max):
        page = await desk.neighbours.get(
            SERVICE, "/api/v1/analytics/kpis", KpiPage, tenant_id=desk.tenant(request), limit=KPI_PAGE, after=page.next,
            **asked.question(),
        )  # fmt: skip
        rows += [row for row in page.kpis if _is_wanted(row, asked.batch)]
        if page.next is None:
            break
    return KpiPage(page.timezone, rows, page.next)


def _is_wanted(row: Kpi, batch: str) -> bool:
    return not batch or row.scope == "barn" or row.batch_id == batch


async def _anomalies(desk: Desk, request: AnyRequest, asked: Asked, limit: int, after: str | None) -> AnomalyPage:
    return await desk.neighbours.get(
        SERVICE, "/api/v1/analytics/anomalies", AnomalyPage, tenant_id=desk.tenant(request), state=asked.state,
        batch_id=asked.batch or None, limit=limit, after=after, **asked.question(),
    )  # fmt: skip


async def _all_anomalies(desk: Desk, request: AnyRequest, asked: Asked) -> tuple[list[Anomaly], bool]:
    """And whether there are still more."""
    found: list[Anomaly] = []
    after: str | None = None
    for _ in range(CSV_PAGES_MAX):
        page = await _anomalies(desk, request, asked, ANOMALY_PAGE, after)
        found += page.anomalies
        if (after := page.next) is None:
            break
    return found, after is not None


PLACE = Place("growth", "Growth", "/growth", routes)

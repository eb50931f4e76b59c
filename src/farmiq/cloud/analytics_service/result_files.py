"""KPIs and anomalies for a file. What the API nests has columns of its own: `weights_mean_kg`, `growth_recent_daily_gain_kg`."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, get_args
from uuid import UUID

import msgspec

from farmiq.cloud.analytics_service import queries
from farmiq.cloud.analytics_service.kpis import Comfort, Data, Gain, Vision, Weights
from farmiq.cloud.analytics_service.queries import AfterAnomaly, AfterKpi, AnomalyRow, Asked, KpiRow
from farmiq.contracts.decoding import encode
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.export import PAGE_ROWS, pages_of
from farmiq.timeseries.export_columns import Column, Kind, Pages, Rows

_KINDS: Final[dict[type, Kind]] = {str: "text", int: "int", float: "float", datetime: "time", UUID: "uuid"}
_PARTS: Final[dict[str, type[msgspec.Struct]]] = {
    "weights": Weights,
    "growth_batch": Gain,
    "growth_recent": Gain,
    "vision": Vision,
    "comfort": Comfort,
    "data": Data,
}
_ANOMALY_NAMES: Final = tuple(field.name for field in msgspec.structs.fields(AnomalyRow))


def _columns_of(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[Column]:
    for field in msgspec.structs.fields(kind):
        known = [_KINDS[one] for one in (field.type, *get_args(field.type)) if one in _KINDS]
        # What has no kind of its own (a day, a choice of words, rows inside a row) is text.
        yield Column(f"{prefix}{field.name}", known[0] if known else "text")


KPI_COLUMNS: Final = (
    *(Column(name, "text") for name in ("tenant_id", "farm_id", "barn_id", "day", "scope", "batch_id")),
    *(column for part, kind in _PARTS.items() for column in _columns_of(kind, f"{part}_")),
    Column("computed_at", "time"),
)
ANOMALY_COLUMNS: Final = (Column("tenant_id", "text"), *_columns_of(AnomalyRow))


def kpi_pages(pool: Pool, asked: Asked) -> Pages:
    async def ask(after: AfterKpi | None) -> tuple[Rows, AfterKpi | None]:
        async with read_as(pool, asked.tenant_id) as connection:
            found = await queries.kpis(connection, asked, after, PAGE_ROWS)
        rows = [_kpi_cells(asked.tenant_id, row) for row in found]
        return rows, queries.after_kpi(found[-1]) if len(found) == PAGE_ROWS else None

    return pages_of(ask)


def anomaly_pages(pool: Pool, asked: Asked) -> Pages:
    async def ask(after: AfterAnomaly | None) -> tuple[Rows, AfterAnomaly | None]:
        async with read_as(pool, asked.tenant_id) as connection:
            found = await queries.anomalies(connection, asked, after, PAGE_ROWS)
        rows = [_anomaly_cells(asked.tenant_id, row) for row in found]
        return rows, queries.after_anomaly(found[-1]) if len(found) == PAGE_ROWS else None

    return pages_of(ask)


def _kpi_cells(tenant_id: str, row: KpiRow) -> list[Any]:
    parts = {
        "weights": row.weights,
        "growth_batch": row.growth and row.growth.batch,
        "growth_recent": row.growth and row.growth.recent,
        "vision": row.vision,
        "comfort": row.comfort,
        "data": row.data,
    }
    cells = [getattr(parts[part], field, None) for part, kind in _PARTS.items() for field in kind.__struct_fields__]
    return [tenant_id, row.farm_id, row.barn_id, str(row.day), row.scope, row.batch_id, *cells, row.computed_at]


def _anomaly_cells(tenant_id: str, row: AnomalyRow) -> list[Any]:
    cells = {name: getattr(row, name) for name in _ANOMALY_NAMES}
    return [tenant_id, *({**cells, "day": str(row.day), "evidence": encode(row.evidence).decode()}).values()]

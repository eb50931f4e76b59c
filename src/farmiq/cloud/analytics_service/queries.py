"""Questions about results. Every one is of one tenant, and a page reads about as many rows as it has."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from farmiq.cloud.analytics_service.anomalies.found import Evidence
from farmiq.cloud.analytics_service.kpis import Comfort, Data, Growth, Vision, Weights
from farmiq.kit.postgres import Connection
from farmiq.timeseries.paging import Word

_KPI_PLAIN: Final = ("farm_id", "barn_id", "day", "scope", "batch_id", "computed_at")
_KPI_COLUMNS: Final = ", ".join((*_KPI_PLAIN, "weights", "growth", "vision", "comfort", "data"))
_ANOMALY_COLUMNS: Final = """id, farm_id, barn_id, day, kind, severity, device_id, metric_type, sensor, batch_id,
           start_at, end_at, explanation, evidence, evidence_count, detected_at, updated_at, cleared_at"""


T = TypeVar("T")


class AfterKpi(NamedTuple):
    day: date
    farm_id: Word
    barn_id: Word
    scope: Word
    batch_id: Word


class AfterAnomaly(NamedTuple):
    day: date
    id: UUID


class KpiRow(msgspec.Struct, frozen=True, kw_only=True):
    farm_id: str
    barn_id: str
    day: date
    scope: str
    batch_id: str
    weights: Weights | None
    growth: Growth | None
    vision: Vision | None
    comfort: Comfort | None
    data: Data | None
    computed_at: datetime


class AnomalyRow(msgspec.Struct, frozen=True, kw_only=True):
    """`evidence` has at most 50 rows, the worst first; `evidence_count` says how many there were."""

    id: UUID
    farm_id: str
    barn_id: str
    day: date
    kind: str
    severity: str
    device_id: str | None
    metric_type: str | None
    sensor: str | None
    batch_id: str | None
    start_at: datetime
    end_at: datetime | None
    explanation: str
    evidence: list[Evidence]
    evidence_count: int
    detected_at: datetime
    updated_at: datetime
    cleared_at: datetime | None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Whose days, from which to which (both included). None: whatever it is."""

    tenant_id: str
    first: date
    last: date
    farm_id: str | None = None
    barn_id: str | None = None
    batch_id: str | None = None
    scope: str | None = None
    kind: str | None = None
    severity: str | None = None
    device_id: str | None = None
    is_cleared: bool | None = None


class _Question:
    """Conditions that are there only when they are asked for, so that PostgreSQL sees which index serves them."""

    def __init__(self, asked: Asked, filters: Sequence[str]) -> None:
        self.values: list[object] = []
        self._conditions = [
            f"tenant_id = {self.bind(asked.tenant_id)}",
            f"day BETWEEN {self.bind(asked.first)} AND {self.bind(asked.last)}",
        ]
        for column in filters:
            wanted = getattr(asked, column)
            if wanted is not None:
                self.add(f"{column} = {self.bind(wanted)}")

    def bind(self, value: object) -> str:
        self.values.append(value)
        return f"${len(self.values)}"

    def add(self, condition: str) -> None:
        self._conditions.append(condition)

    def __str__(self) -> str:
        return " AND ".join(self._conditions)


async def kpis(connection: Connection, asked: Asked, after: AfterKpi | None, limit: int) -> list[KpiRow]:
    """The oldest day first."""
    question = _Question(asked, ("farm_id", "barn_id", "scope", "batch_id"))
    if after is not None:
        question.add(f"(day, farm_id, barn_id, scope, batch_id) > ({', '.join(map(question.bind, after))})")
    statement = f"""
        SELECT {_KPI_COLUMNS} FROM analytics_kpis WHERE {question}
         ORDER BY day, farm_id, barn_id, scope, batch_id LIMIT {question.bind(limit)}
    """  # noqa: S608 - put together from constants of this file; every value is bound
    return [
        KpiRow(
            **{name: row[name] for name in _KPI_PLAIN},
            weights=_read(row["weights"], Weights),
            growth=_read(row["growth"], Growth),
            vision=_read(row["vision"], Vision),
            comfort=_read(row["comfort"], Comfort),
            data=_read(row["data"], Data),
        )
        for row in await connection.fetch(statement, *question.values)
    ]


async def anomalies(connection: Connection, asked: Asked, after: AfterAnomaly | None, limit: int) -> list[AnomalyRow]:
    """The newest day first."""
    question = _Question(asked, ("farm_id", "barn_id", "batch_id", "kind", "severity", "device_id"))
    if asked.is_cleared is not None:
        question.add(f"cleared_at IS {'NOT ' if asked.is_cleared else ''}NULL")
    if after is not None:
        question.add(f"(day, id) < ({', '.join(map(question.bind, after))})")
    statement = f"""
        SELECT {_ANOMALY_COLUMNS} FROM analytics_anomalies WHERE {question}
         ORDER BY day DESC, id DESC LIMIT {question.bind(limit)}
    """  # noqa: S608 - as above
    rows = await connection.fetch(statement, *question.values)
    return [
        AnomalyRow(**{**dict(row), "evidence": msgspec.json.decode(row["evidence"], type=list[Evidence])})
        for row in rows
    ]


def after_kpi(row: KpiRow) -> AfterKpi:
    return AfterKpi(row.day, row.farm_id, row.barn_id, row.scope, row.batch_id)


def after_anomaly(row: AnomalyRow) -> AfterAnomaly:
    return AfterAnomaly(row.day, row.id)


def _read(part: msgspec.Raw | None, kind: type[T]) -> T | None:
    return None if part is None else msgspec.json.decode(part, type=kind)

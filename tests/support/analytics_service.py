"""The analytics service's two halves, driven by hand: events in, days computed."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from farmiq.cloud.analytics_service.consumer import KeepFacts
from farmiq.cloud.analytics_service.facts import Fact
from farmiq.cloud.analytics_service.settings import JudgementSettings, Rules, rules_of
from farmiq.cloud.analytics_service.worker import Counters, Recomputer
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_work import Work, work_through
from farmiq.kit.postgres import Pool
from farmiq.kit.settings import load
from support.stored_months import StoppedClock

HOURS_RETENTION_DAYS = 90
FACTS = (
    "analytics_hours",
    "analytics_series",
    "analytics_sessions",
    "analytics_weights",
    "analytics_inferences",
    "analytics_losses",
)


class Analytics:
    def __init__(self, pool: Pool, now: datetime, environ: Mapping[str, str] | None = None) -> None:
        self.pool = pool
        self.now = now
        self.rules: Rules = rules_of(load(JudgementSettings, environ or {}))
        self.registry = CollectorRegistry()
        self.recomputer = Recomputer(pool, self.rules, HOURS_RETENTION_DAYS, Counters(self.registry))

    async def take(self, deliveries: Sequence[Delivery]) -> None:
        """As one micro-batch, none of which fails."""
        clock = StoppedClock(self.now)
        work: Work[Fact] = KeepFacts(self.pool, clock, self.rules.calendar, HOURS_RETENTION_DAYS)
        outcome = await work_through(work, deliveries)
        assert [failure.detail for failure in outcome.failures] == []
        assert len(outcome.done) == len(deliveries)

    async def compute(self) -> int:
        """Every marked day. Answers how many there were."""
        days = 0
        while await self.recomputer.compute_next(self.now, is_newest=days % 2 == 0, quiet_seconds=0.0):
            days += 1
        return days

    async def facts(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that must not depend on order or repetition."""
        return {table: await self._all(f"SELECT * FROM {table} AS one ORDER BY one::text") for table in FACTS}  # noqa: S608 - our own constants

    async def kpis(self, tenant_id: str = "demo") -> dict[tuple[str, str, str, str], dict[str, Any]]:
        """By barn, day, scope and batch."""
        rows = await self.pool.fetch("SELECT * FROM analytics_kpis WHERE tenant_id = $1", tenant_id)
        return {
            (row["barn_id"], row["day"].isoformat(), row["scope"], row["batch_id"]): {
                part: _json(row[part]) for part in ("weights", "growth", "vision", "comfort", "data")
            }
            for row in rows
        }

    async def anomalies(self) -> list[tuple[Any, ...]]:
        rows = await self._all(
            "SELECT id, barn_id, day, kind, severity, device_id, metric_type, sensor, batch_id, start_at, end_at, explanation,"
            " evidence, evidence_count, cleared_at IS NOT NULL FROM analytics_anomalies ORDER BY day, kind, id"
        )
        return [(*row[:12], _json(row[12]), *row[13:]) for row in rows]

    async def marks(self) -> list[tuple[Any, ...]]:
        return await self._all("SELECT DISTINCT tenant_id, barn_id, day FROM analytics_marks ORDER BY 1, 2, 3")

    async def _all(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.pool.fetch(statement)]


def _json(raw: Any) -> Any:
    return None if raw is None else msgspec.json.decode(raw)

"""Every SQL statement that writes what a day came to. What was there for the day is replaced as a whole."""

from datetime import UTC, datetime, time
from typing import Final
from uuid import UUID, uuid5

from farmiq.cloud.analytics_service.anomalies.found import Anomaly
from farmiq.cloud.analytics_service.barn_day import Judgement
from farmiq.cloud.analytics_service.kpis import Kpi
from farmiq.cloud.analytics_service.marks import MarkedDay
from farmiq.cloud.analytics_service.store import columns_of
from farmiq.cloud.naming import naming
from farmiq.contracts.decoding import encode
from farmiq.kit.ids import Naming
from farmiq.kit.postgres import Connection

ANOMALY_IDS: Final = UUID("6d1f0f5c-6c6e-5a3b-9a39-0f3f4f6f2a51")
"""The name space of the anomalies' ids of 0.1.0. Another one would make every anomaly of its days a second time."""

_FORGET_KPIS: Final = "DELETE FROM analytics_kpis WHERE (tenant_id, farm_id, barn_id, day) = ($1, $2, $3, $4)"
_KEEP_KPIS: Final = """
    INSERT INTO analytics_kpis
           (tenant_id, farm_id, barn_id, day, computed_at, scope, batch_id, weights, growth, vision, comfort, data)
    SELECT $1, $2, $3, $4, $5, *
      FROM unnest($6::text[], $7::text[], $8::jsonb[], $9::jsonb[], $10::jsonb[], $11::jsonb[], $12::jsonb[])
"""
_KEEP_ANOMALIES: Final = """
    INSERT INTO analytics_anomalies
           (tenant_id, farm_id, barn_id, day, detected_at, updated_at, id, kind, severity, device_id, metric_type, sensor,
            batch_id, start_at, end_at, explanation, evidence, evidence_count)
    SELECT $1, $2, $3, $4, $5, $5, *
      FROM unnest($6::uuid[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::timestamptz[],
                  $14::timestamptz[], $15::text[], $16::jsonb[], $17::bigint[])
    ON CONFLICT (tenant_id, id) DO UPDATE
       SET severity = excluded.severity, start_at = excluded.start_at, end_at = excluded.end_at,
           explanation = excluded.explanation, evidence = excluded.evidence, evidence_count = excluded.evidence_count,
           updated_at = excluded.updated_at, cleared_at = NULL
"""
_CLEAR: Final = """
    UPDATE analytics_anomalies SET cleared_at = $5, updated_at = $5
     WHERE (tenant_id, farm_id, barn_id, day) = ($1, $2, $3, $4) AND cleared_at IS NULL AND id <> ALL ($6::uuid[])
"""


async def replace(connection: Connection, day: MarkedDay, judgement: Judgement, now: datetime) -> None:
    await connection.execute(_FORGET_KPIS, *day)
    if judgement.kpis:
        await connection.execute(_KEEP_KPIS, *day, now, *columns_of([_kpi_row(kpi) for kpi in judgement.kpis]))
    names = await naming(connection)
    rows = [_anomaly_row(day, anomaly, names) for anomaly in judgement.anomalies]
    await connection.execute(_CLEAR, *day, now, [row[0] for row in rows])
    if rows:
        await connection.execute(_KEEP_ANOMALIES, *day, now, *columns_of(rows))


def anomaly_id(day: MarkedDay, anomaly: Anomaly, names: Naming) -> UUID:
    """The same for the same subject and day, whatever was measured."""
    parts = (*day, anomaly.kind, anomaly.subject)
    at = datetime.combine(day.day, time.min, UTC)
    return names.name(at, lambda: uuid5(ANOMALY_IDS, encode(list(parts)).decode()), "anomaly", *parts)


def _kpi_row(kpi: Kpi) -> tuple[object, ...]:
    return kpi.scope, kpi.batch_id, kpi.weights, kpi.growth, kpi.vision, kpi.comfort, kpi.data


def _anomaly_row(day: MarkedDay, one: Anomaly, names: Naming) -> tuple[object, ...]:
    return (
        anomaly_id(day, one, names),
        one.kind,
        one.severity,
        one.device_id,
        one.metric,
        one.sensor,
        one.batch_id,
        one.start_at,
        one.end_at,
        one.explanation,
        one.evidence,
        one.evidence_count,
    )

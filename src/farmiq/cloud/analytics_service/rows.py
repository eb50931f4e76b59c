"""Every SQL statement that reads what a barn's day is computed from."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.days import Calendar, hour_at, window_of
from farmiq.cloud.analytics_service.inputs import (
    WEIGHT_KG_MIN,
    BarnDay,
    Heard,
    Inference,
    Kept,
    Loss,
    Series,
    SeriesHours,
    Session,
    Weighing,
)
from farmiq.cloud.analytics_service.marks import MarkedDay
from farmiq.cloud.telemetry_service.intake import completeness_of_barn
from farmiq.kit.postgres import Connection

EARLIER_WEIGHTS_MAX: Final = 20_000
"""Of one batch: the newest. A line through so many does not need the rest."""

# One row for each series, its hours as arrays: a hundredth of the rows, and what the computation wants anyway.
_HOURS: Final = """
    SELECT device_id, metric_type, sensor, unit, array_agg((extract(epoch FROM hour_at) / 3600)::bigint) AS hours,
           array_agg(mean_value) AS means, array_agg(min_value) AS lows, array_agg(max_value) AS highs, array_agg(count) AS counts
      FROM analytics_hours
     WHERE (tenant_id, farm_id, barn_id) = ($1, $2, $3) AND hour_at >= $4 AND hour_at < $5
     GROUP BY device_id, metric_type, sensor, unit
"""
_HEARD: Final = """
    SELECT device_id, metric_type, sensor, unit, heard_at, value FROM analytics_series
     WHERE (tenant_id, farm_id, barn_id) = ($1, $2, $3)
"""
_SESSIONS: Final = """
    SELECT session_id, finalized_at, coalesce(device_id, '') AS device_id, batch_id, initial_weight_kg AS initial_kg,
           final_weight_kg AS final_kg, inference_result_id,
           ARRAY(SELECT weight_kg FROM analytics_weights AS told
                  WHERE (told.tenant_id, told.session_id) = (one.tenant_id, one.session_id)
                  ORDER BY occurred_at, event_id) AS recorded_kg
      FROM analytics_sessions AS one
     WHERE (tenant_id, farm_id, barn_id) = ($1, $2, $3) AND finalized_at >= $4 AND finalized_at < $5
"""
_INFERENCES: Final = """
    SELECT session_id, inference_result_id, predicted_weight_kg, confidence, model_version, occurred_at
      FROM analytics_inferences WHERE tenant_id = $1 AND session_id = ANY ($2::uuid[])
"""
_EARLIER: Final = """
    SELECT newest.batch_id, newest.finalized_at, newest.weight_kg
      FROM unnest($4::text[]) AS wanted (batch_id),
           LATERAL (SELECT batch_id, finalized_at, coalesce(final_weight_kg, (
                             SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY weight_kg) FROM analytics_weights AS told
                              WHERE (told.tenant_id, told.session_id) = (one.tenant_id, one.session_id))) AS weight_kg
                      FROM analytics_sessions AS one
                     WHERE (tenant_id, farm_id, barn_id) = ($1, $2, $3) AND batch_id = wanted.batch_id AND finalized_at < $5
                     ORDER BY finalized_at DESC LIMIT $6) AS newest
     WHERE newest.weight_kg >= $7
"""
_LEFT: Final = """
    SELECT here.device_id
      FROM (SELECT device_id, max(heard_at) AS heard_at FROM analytics_series
             WHERE (tenant_id, farm_id, barn_id) = ($1, $2, $3) GROUP BY device_id) AS here
     WHERE EXISTS (SELECT FROM analytics_series AS there
                    WHERE there.tenant_id = $1 AND there.device_id = here.device_id AND there.heard_at > here.heard_at
                      AND (there.farm_id, there.barn_id) <> ($2, $3))
"""
_LOSSES: Final = """
    SELECT device_id, first_at, last_at, samples, reason FROM analytics_losses
     WHERE (tenant_id, farm_id, barn_id) = ($1, $2, $3) AND last_at >= $4 AND first_at < $5
"""


async def barn_day(connection: Connection, day: MarkedDay, calendar: Calendar, now: datetime) -> BarnDay:
    barn, bounds = (day.tenant_id, day.farm_id, day.barn_id), calendar.bounds(day.day)
    sessions = await _sessions(connection, barn, bounds)
    batches = sorted({session.batch_id for session in sessions})
    earlier = (
        await connection.fetch(_EARLIER, *barn, batches, bounds[0], EARLIER_WEIGHTS_MAX, WEIGHT_KG_MIN)
        if batches
        else []
    )
    return BarnDay(
        calendar,
        day.day,
        now,
        await _hours(connection, day, calendar),
        {Series(*row[:4]): Heard(*row[4:]) for row in map(tuple, await connection.fetch(_HEARD, *barn))},
        sessions,
        [Weighing(row["batch_id"], calendar.day_of(row["finalized_at"]), row["weight_kg"]) for row in earlier],
        [Loss(*row) for row in await connection.fetch(_LOSSES, *barn, *bounds)],
        frozenset(row["device_id"] for row in await connection.fetch(_LEFT, *barn)),
        await _kept(connection, day, bounds),
    )


async def _kept(connection: Connection, day: MarkedDay, bounds: tuple[datetime, datetime]) -> Kept:
    found = await completeness_of_barn(connection, day.tenant_id, (day.farm_id, day.barn_id), *bounds)
    return Kept(found.stored, found.missing)


async def _hours(connection: Connection, day: MarkedDay, calendar: Calendar) -> list[SeriesHours]:
    window = window_of(calendar, day.day, DAYS_BEFORE)
    since, until = window.at(0), hour_at(window.first_hour + window.length)
    rows = await connection.fetch(_HOURS, day.tenant_id, day.farm_id, day.barn_id, since, until)
    return [SeriesHours(Series(*row[:4]), *row[4:]) for row in map(tuple, rows)]


async def _sessions(
    connection: Connection, barn: tuple[str, str, str], bounds: tuple[datetime, datetime]
) -> list[Session]:
    rows = await connection.fetch(_SESSIONS, *barn, *bounds)
    inferences = await _inferences(connection, barn[0], [row["session_id"] for row in rows])
    return [
        Session(
            **{**dict(row), "recorded_kg": tuple(row["recorded_kg"])},
            inferences=tuple(inferences.get(row["session_id"], ())),
        )
        for row in rows
    ]


async def _inferences(
    connection: Connection, tenant_id: str, session_ids: Sequence[UUID]
) -> dict[UUID, list[Inference]]:
    found: dict[UUID, list[Inference]] = {}
    for row in await connection.fetch(_INFERENCES, tenant_id, session_ids) if session_ids else []:
        session_id, *inference = tuple(row)
        found.setdefault(session_id, []).append(Inference(*inference))
    return found

"""Every SQL statement that merges facts, all of a kind at once. The order and the repetition of events change nothing.

Rows are written in the order of their keys, so that two replicas do not wait for each other in a circle.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from farmiq.cloud.analytics_service.facts import (
    CreatedFact,
    EndedFact,
    HeardFact,
    HourFact,
    InferenceFact,
    LossFact,
    SessionFact,
    WeightFact,
)
from farmiq.kit.postgres import Connection
from farmiq.timeseries.stream import Origin

_HOUR_KEY: Final = "tenant_id, farm_id, barn_id, hour_at, device_id, metric_type, sensor, unit"
_HOURS: Final = f"""
    INSERT INTO analytics_hours AS known ({_HOUR_KEY}, revision, count, mean_value, min_value, max_value, event_id)
    SELECT DISTINCT ON ({_HOUR_KEY}) {_HOUR_KEY}, revision, count, mean_value, min_value, max_value, event_id
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
                  $9::bigint[], $10::bigint[], $11::float8[], $12::float8[], $13::float8[], $14::uuid[])
        AS given ({_HOUR_KEY}, revision, count, mean_value, min_value, max_value, event_id)
     ORDER BY {_HOUR_KEY}, revision DESC, count DESC, event_id DESC
    ON CONFLICT ({_HOUR_KEY}) DO UPDATE
       SET revision = excluded.revision, count = excluded.count, mean_value = excluded.mean_value,
           min_value = excluded.min_value, max_value = excluded.max_value, event_id = excluded.event_id
     WHERE (excluded.revision, excluded.count, excluded.event_id) > (known.revision, known.count, known.event_id)
    RETURNING tenant_id, farm_id, barn_id, hour_at
"""  # noqa: S608 - put together from our own constants
_SERIES_KEY: Final = "tenant_id, farm_id, barn_id, device_id, metric_type, sensor, unit"
_HEARD: Final = f"""
    INSERT INTO analytics_series AS known ({_SERIES_KEY}, heard_at, value)
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                         $8::timestamptz[], $9::float8[])
    ON CONFLICT ({_SERIES_KEY}) DO UPDATE SET heard_at = excluded.heard_at, value = excluded.value
     WHERE (excluded.heard_at, excluded.value) > (known.heard_at, known.value)
"""  # noqa: S608 - as above
_TOUCH: Final = """
    INSERT INTO analytics_sessions AS known (tenant_id, session_id, touched_at)
    SELECT tenant_id, session_id, max(touched_at)
      FROM unnest($1::text[], $2::uuid[], $3::timestamptz[]) AS given (tenant_id, session_id, touched_at)
     GROUP BY tenant_id, session_id ORDER BY tenant_id, session_id
    ON CONFLICT (tenant_id, session_id) DO UPDATE SET touched_at = greatest(known.touched_at, excluded.touched_at)
"""
# Of several beginnings the first counts, of several ends the one of the highest revision. A cancelled session is not finalized.
_CREATED: Final = """
    UPDATE analytics_sessions AS known
       SET created_at = given.at, created_event_id = given.event_id, batch_id = given.batch_id,
           initial_weight_kg = given.weight_kg,
           farm_id = CASE WHEN end_at IS NULL THEN given.farm_id ELSE known.farm_id END,
           barn_id = CASE WHEN end_at IS NULL THEN given.barn_id ELSE known.barn_id END,
           device_id = CASE WHEN end_at IS NULL THEN given.device_id ELSE known.device_id END
      FROM (SELECT DISTINCT ON (tenant_id, session_id) *
              FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[], $6::text[], $7::text[],
                          $8::float8[], $9::text[])
                AS given (tenant_id, session_id, at, event_id, farm_id, barn_id, device_id, weight_kg, batch_id)
             ORDER BY tenant_id, session_id, at, event_id) AS given
     WHERE (known.tenant_id, known.session_id) = (given.tenant_id, given.session_id)
       AND (known.created_at IS NULL OR (given.at, given.event_id) < (known.created_at, known.created_event_id))
"""
_ENDED: Final = """
    UPDATE analytics_sessions AS known
       SET end_revision = given.revision, end_at = given.at, end_event_id = given.event_id,
           finalized_at = CASE WHEN NOT given.is_cancelled THEN given.at END,
           final_weight_kg = given.weight_kg, inference_result_id = given.inference_result_id,
           farm_id = given.farm_id, barn_id = given.barn_id, device_id = given.device_id
      FROM (SELECT DISTINCT ON (tenant_id, session_id) *
              FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::uuid[], $5::text[], $6::text[], $7::text[],
                          $8::float8[], $9::uuid[], $10::integer[], $11::boolean[])
                AS given (tenant_id, session_id, at, event_id, farm_id, barn_id, device_id, weight_kg, inference_result_id,
                          revision, is_cancelled)
             ORDER BY tenant_id, session_id, revision DESC, at DESC, event_id DESC) AS given
     WHERE (known.tenant_id, known.session_id) = (given.tenant_id, given.session_id)
       AND (known.end_at IS NULL
            OR (given.revision, given.at, given.event_id) > (known.end_revision, known.end_at, known.end_event_id))
"""
_WEIGHTS: Final = """
    INSERT INTO analytics_weights (tenant_id, session_id, occurred_at, event_id, weight_kg)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::uuid[], $5::float8[])
    ON CONFLICT DO NOTHING
"""
_INFERENCES: Final = """
    INSERT INTO analytics_inferences
           (tenant_id, session_id, occurred_at, event_id, inference_result_id, predicted_weight_kg, confidence, model_version)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::uuid[], $5::uuid[], $6::float8[], $7::float8[],
                         $8::text[])
    ON CONFLICT DO NOTHING
"""
_LOSSES: Final = """
    INSERT INTO analytics_losses (tenant_id, event_id, farm_id, barn_id, device_id, first_at, last_at, samples, reason)
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
                         $8::bigint[], $9::text[])
    ON CONFLICT DO NOTHING
"""
_PLACES: Final = """
    SELECT tenant_id, farm_id, barn_id, finalized_at FROM analytics_sessions
      JOIN unnest($1::text[], $2::uuid[]) AS given (tenant_id, session_id) USING (tenant_id, session_id)
     WHERE finalized_at IS NOT NULL
"""


class Moment(NamedTuple):
    """Where and when something has changed."""

    tenant_id: str
    farm_id: str
    barn_id: str
    at: datetime


async def merge_hours(connection: Connection, facts: Sequence[HourFact]) -> list[Moment]:
    """Answers the hours that are other than they were."""
    rows = [
        (
            *_barn(fact.origin),
            fact.hour_at,
            fact.origin.device_id,
            fact.metric,
            fact.sensor,
            fact.unit,
            fact.revision,
            fact.count,
            fact.mean,
            fact.low,
            fact.high,
            fact.event_id,
        )
        for fact in facts
    ]
    return [Moment(*row) for row in await connection.fetch(_HOURS, *columns_of(rows))] if rows else []


async def merge_heard(connection: Connection, facts: Iterable[HeardFact]) -> None:
    newest: dict[tuple[str, ...], tuple[datetime, float]] = {}
    for fact in facts:
        key = (*_barn(fact.origin), fact.origin.device_id, fact.metric, fact.sensor, fact.unit)
        said = (fact.at, fact.value)
        if key not in newest or said > newest[key]:
            newest[key] = said
    if newest:
        await connection.execute(_HEARD, *columns_of([(*key, *newest[key]) for key in sorted(newest)]))


async def merge_losses(connection: Connection, facts: Sequence[LossFact]) -> None:
    rows = [
        (
            fact.origin.tenant_id,
            fact.event_id,
            fact.origin.farm_id,
            fact.origin.barn_id,
            fact.origin.device_id,
            fact.first_at,
            fact.last_at,
            fact.samples,
            fact.reason,
        )
        for fact in facts
    ]
    if rows:
        await connection.execute(_LOSSES, *columns_of(sorted(rows)))


async def merge_sessions(connection: Connection, facts: Sequence[SessionFact]) -> set[Moment]:
    """Answers where and when the finalized ones among them are, and were before."""
    if not facts:
        return set()
    keys = sorted({(fact.origin.tenant_id, fact.session_id) for fact in facts})
    await connection.execute(_TOUCH, *columns_of([(fact.origin.tenant_id, fact.session_id, fact.at) for fact in facts]))
    # From here on these sessions are ours until the commit: whoever brings another of their events waits, and sees this one.
    before = await _places(connection, keys)
    created = [
        (*_head(one), *_place(one.origin), one.initial_kg, one.batch_id or "")
        for one in facts
        if isinstance(one, CreatedFact)
    ]
    ended = [
        (*_head(one), *_place(one.origin), one.final_kg, one.inference_result_id, one.revision, one.is_cancelled)
        for one in facts
        if isinstance(one, EndedFact)
    ]
    weights = [(*_head(one), one.weight_kg) for one in facts if isinstance(one, WeightFact)]
    inferences = [
        (*_head(one), one.result_id, one.predicted_kg, one.confidence, one.model_version)
        for one in facts
        if isinstance(one, InferenceFact)
    ]
    for statement, rows in (
        (_CREATED, created),
        (_ENDED, ended),
        (_WEIGHTS, weights),
        (_INFERENCES, inferences),
    ):
        if rows:
            await connection.execute(statement, *columns_of(rows))
    return before | await _places(connection, keys)


async def _places(connection: Connection, keys: Sequence[tuple[str, UUID]]) -> set[Moment]:
    return {Moment(*row) for row in await connection.fetch(_PLACES, *columns_of(keys))}


def _head(fact: SessionFact) -> tuple[str, UUID, datetime, UUID]:
    return fact.origin.tenant_id, fact.session_id, fact.at, fact.event_id


def _barn(origin: Origin) -> tuple[str, str, str]:
    return origin.tenant_id, origin.farm_id, origin.barn_id


def _place(origin: Origin) -> tuple[str, str, str]:
    return origin.farm_id, origin.barn_id, origin.device_id


def columns_of(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    """Rows as the arrays that `unnest` takes."""
    return [list(column) for column in zip(*rows, strict=True)]

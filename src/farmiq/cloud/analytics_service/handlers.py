"""What happens to facts from the bus, in order: merged, and the days that they touch marked, in one transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from farmiq.cloud.analytics_service import marks, store
from farmiq.cloud.analytics_service.days import Calendar
from farmiq.cloud.analytics_service.facts import (
    CreatedFact,
    EndedFact,
    Fact,
    HeardFacts,
    HourFact,
    InferenceFact,
    LossFact,
    WeightFact,
)
from farmiq.cloud.analytics_service.marks import Horizon, Touched, horizon_of
from farmiq.kit.postgres import Connection, Pool


async def keep(pool: Pool, facts: Sequence[Fact], calendar: Calendar, hours_retention_days: int, now: datetime) -> None:
    """Committed when it returns. The same facts once more change nothing."""
    horizon = horizon_of(calendar, now, hours_retention_days)
    async with pool.acquire() as connection, connection.transaction():
        touched = await _merge(connection, facts, calendar, horizon)
        await marks.mark(connection, (one for one in touched if one is not None))


async def _merge(
    connection: Connection, facts: Sequence[Fact], calendar: Calendar, horizon: Horizon
) -> list[Touched | None]:
    sessions = [one for one in facts if isinstance(one, CreatedFact | EndedFact | WeightFact | InferenceFact)]
    losses = [one for one in facts if isinstance(one, LossFact)]
    heard = (one for pack in facts if isinstance(pack, HeardFacts) for one in pack.heard)
    weighed = await store.merge_sessions(connection, sessions)
    measured = await store.merge_hours(connection, [one for one in facts if isinstance(one, HourFact)])
    await store.merge_losses(connection, losses)
    await store.merge_heard(connection, heard)
    return [
        *(horizon.after_weight(one.tenant_id, one.farm_id, one.barn_id, calendar.day_of(one.at)) for one in weighed),
        *(horizon.after_hour(one.tenant_id, one.farm_id, one.barn_id, calendar.day_of(one.at)) for one in measured),
        *_lost_days(losses, calendar, horizon),
    ]


def _lost_days(losses: Iterable[LossFact], calendar: Calendar, horizon: Horizon) -> Iterable[Touched | None]:
    for loss in losses:
        origin, first, last = loss.origin, calendar.day_of(loss.first_at), calendar.day_of(loss.last_at)
        yield horizon.between(origin.tenant_id, origin.farm_id, origin.barn_id, first, last)

"""Days of barns that have to be computed again: which ones a change touches, written down with the change, taken one at a time.

A mark is a row of its own, however many there are for a day, so whoever writes one waits for nobody. Whoever computes a day
holds the day's advisory lock, removes the marks it sees, and only then reads: what those marks stood for is in what it reads,
and a mark that is made meanwhile stays. Marks and results go in one transaction: killed anywhere, both are as they were.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.days import Calendar
from farmiq.kit.due_times import AHEAD
from farmiq.kit.postgres import Connection

CANDIDATES: Final = 500
MIDNIGHT: Final = timedelta(minutes=10)
"""Longer than a transaction takes, and than replicas' clocks differ."""

_MARK: Final = """
    INSERT INTO analytics_marks (tenant_id, farm_id, barn_id, day)
    SELECT DISTINCT tenant_id, farm_id, barn_id, day::date
      FROM unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::date[]) AS given (tenant_id, farm_id, barn_id, first, last),
           generate_series(first::timestamp, last::timestamp, interval '1 day') AS day
"""
# The oldest mark of all, or one of the newest day: what is measured now is not to wait behind a month that has just come in, and
# that month is not to wait for ever.
_CANDIDATES: Final = f"""
    SELECT tenant_id, farm_id, barn_id, day FROM analytics_marks
     WHERE marked_at <= now() - $1::float8 * interval '1 second' OR marked_at > now() + {AHEAD} ORDER BY {{order}} LIMIT $2
"""  # noqa: S608 - our own constants
_TAKE: Final = """
    WITH waiting AS MATERIALIZED ({candidates})
    SELECT tenant_id, farm_id, barn_id, day FROM waiting
     WHERE pg_try_advisory_xact_lock(
             hashtextextended(format('farmiq analytics %s/%s/%s/%s', tenant_id, farm_id, barn_id, day), 0))
     LIMIT 1
"""
_OLDEST: Final = _TAKE.format(candidates=_CANDIDATES.format(order="id"))
_NEWEST: Final = _TAKE.format(candidates=_CANDIDATES.format(order="day DESC, id DESC"))
_POSTPONE: Final = """
    UPDATE analytics_marks SET marked_at = now() + interval '10 minutes'
     WHERE (tenant_id, farm_id, barn_id, day) = ($1, $2, $3, $4)
"""
_WAITING: Final = """
    SELECT count(*), coalesce(extract(epoch FROM greatest(now() - min(marked_at), interval '0')), 0)::float8 FROM analytics_marks
"""
_BARNS: Final = """
    SELECT tenant_id, farm_id, barn_id FROM analytics_series WHERE heard_at >= $1
    UNION
    SELECT tenant_id, farm_id, barn_id FROM analytics_sessions WHERE touched_at >= $1 AND finalized_at IS NOT NULL
"""
_MARK_BARNS: Final = f"""
    INSERT INTO analytics_marks (tenant_id, farm_id, barn_id, day)
    SELECT tenant_id, farm_id, barn_id, day FROM ({_BARNS}) AS barns, unnest($2::date[]) AS day
"""  # noqa: S608 - our own constants
_COUNT_BARNS: Final = f"SELECT count(*) FROM ({_BARNS}) AS barns"  # noqa: S608 - as above
_REMOVE: Final = "DELETE FROM analytics_marks WHERE (tenant_id, farm_id, barn_id, day) = ($1, $2, $3, $4)"


class MarkedDay(NamedTuple):
    tenant_id: str
    farm_id: str
    barn_id: str
    day: date


class Touched(NamedTuple):
    """Days of one barn that a change reaches, both ends included."""

    tenant_id: str
    farm_id: str
    barn_id: str
    first: date
    last: date


class Horizon(msgspec.Struct, frozen=True):
    """The days that are computed: from the oldest of which all hours that it is compared with are kept, up to today."""

    first: date
    last: date

    def after_hour(self, tenant_id: str, farm_id: str, barn_id: str, day: date) -> Touched | None:
        """A day's hours are what the next days are compared with."""
        return self._within(tenant_id, farm_id, barn_id, day, _later(day, DAYS_BEFORE))

    def after_weight(self, tenant_id: str, farm_id: str, barn_id: str, day: date) -> Touched | None:
        """Every later day's growth is that since the beginning."""
        return self._within(tenant_id, farm_id, barn_id, day, self.last)

    def between(self, tenant_id: str, farm_id: str, barn_id: str, first: date, last: date) -> Touched | None:
        return self._within(tenant_id, farm_id, barn_id, first, last)

    def _within(self, tenant_id: str, farm_id: str, barn_id: str, first: date, last: date) -> Touched | None:
        first, last = max(first, self.first), min(last, self.last)
        return None if first > last else Touched(tenant_id, farm_id, barn_id, first, last)


def horizon_of(calendar: Calendar, now: datetime, hours_retention_days: int) -> Horizon:
    """Shortly before midnight, today is tomorrow too: what is not committed yet must reach a day that others begin meanwhile.

    What a clock tells that runs ahead is computed when its day has come.
    """
    oldest = calendar.day_of(now) - timedelta(days=hours_retention_days - DAYS_BEFORE)
    return Horizon(oldest, calendar.day_of(now + MIDNIGHT))


def _later(day: date, days: int) -> date:
    return day + timedelta(days=days) if date.max - day >= timedelta(days=days) else date.max


async def mark(connection: Connection, touched: Iterable[Touched]) -> None:
    rows = sorted(set(touched))
    if rows:
        await connection.execute(_MARK, *map(list, zip(*rows, strict=True)))


async def take(connection: Connection, *, is_newest: bool, quiet_seconds: float) -> MarkedDay | None:
    """A day that nobody else has, its marks removed. To be computed and committed in the same transaction."""
    row = await connection.fetchrow(_NEWEST if is_newest else _OLDEST, quiet_seconds, CANDIDATES)
    if row is None:
        return None
    day = MarkedDay(*row)
    # The first mark may be gone: who had the day before us committed after we had looked. Then there is nothing left to do.
    removed = await connection.execute(_REMOVE, *day)
    return None if removed == "DELETE 0" else day


async def postpone(connection: Connection, day: MarkedDay) -> None:
    await connection.execute(_POSTPONE, *day)


async def waiting(connection: Connection) -> tuple[int, float]:
    """How many marks there are, and how many seconds the oldest has waited."""
    row = await connection.fetchrow(_WAITING)
    assert row is not None  # noqa: S101 - an aggregate always has its one row
    return row[0], row[1]


async def mark_barns(connection: Connection, heard_since: datetime, days: Sequence[date]) -> int:
    """These days of every barn that was heard lately. Answers how many barns there are."""
    await connection.execute(_MARK_BARNS, heard_since, list(days))
    return await count_barns(connection, heard_since)


async def count_barns(connection: Connection, heard_since: datetime) -> int:
    return int(await connection.fetchval(_COUNT_BARNS, heard_since))

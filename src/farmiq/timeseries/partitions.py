"""Which monthly partitions samples need, and having them ready."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from typing import Final

from farmiq.kit.jobs import Report, Work
from farmiq.kit.month_partitions import make_months, month_after
from farmiq.kit.postgres import Connection

# A node whose clock was never set may say 1970 or 2106. Such rows are kept in the default partition, instead of a table
# for each imagined month; what is between these two is a farm's real past and near future.
FIRST_PLAUSIBLE = date(2015, 1, 1)
MONTHS_AHEAD = 3
MONTHS_READY = 3
"""This month and the next two are made before anybody needs them."""

# From one tenant to the next through an index: the cost depends on how many there are, not on their samples.
_WAITING_TENANTS: Final = """
    WITH RECURSIVE tenant (tenant_id) AS (
      (SELECT tenant_id FROM {table}_default ORDER BY tenant_id LIMIT 1)
      UNION ALL
      SELECT (SELECT later.tenant_id FROM {table}_default AS later WHERE later.tenant_id > tenant.tenant_id
              ORDER BY later.tenant_id LIMIT 1)
        FROM tenant WHERE tenant.tenant_id IS NOT NULL)
    SELECT tenant_id FROM tenant WHERE tenant_id IS NOT NULL
"""
_NEXT_WAITING: Final = """
    SELECT min(occurred_at) FROM {table}_default WHERE tenant_id = $1 AND occurred_at >= $2 AND occurred_at < $3
"""


def months_of(times_us: Iterable[int], today: date | None = None) -> list[date]:
    """The first day of each plausible month, in order."""
    last = month_after(today or datetime.now(UTC).date(), MONTHS_AHEAD)
    days = {at_us // 86_400_000_000 for at_us in times_us}
    months = {_month_of(day) for day in days}
    return sorted(month for month in months if month is not None and FIRST_PLAUSIBLE <= month <= last)


def _month_of(days_since_epoch: int) -> date | None:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + days_since_epoch).replace(day=1)
    except (ValueError, OverflowError):
        return None  # outside the calendar: the default partition takes it


async def prepare_months(work: Work, table: str = "telemetry_raw") -> Report:
    """The partitions of this month and the next, and of rows that are in the default one for want of theirs."""
    today = work.clock.now().date()
    ahead = {month_after(today, months) for months in range(MONTHS_READY)}
    return await make_months(work, table, ahead | await _waiting_months(work.connection, table, today))


async def _waiting_months(connection: Connection, table: str, today: date) -> set[date]:
    """A month that could not be made when its rows came, and that no row has come for since."""
    end_at = _start_of(month_after(today, MONTHS_AHEAD + 1))
    months: set[date] = set()
    next_waiting = _NEXT_WAITING.format(table=table)
    for row in await connection.fetch(_WAITING_TENANTS.format(table=table)):
        at = _start_of(FIRST_PLAUSIBLE)
        while (found := await connection.fetchval(next_waiting, row["tenant_id"], at, end_at)) is not None:
            months.add(found.date().replace(day=1))
            at = _start_of(month_after(found.date()))
    return months


def _start_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)

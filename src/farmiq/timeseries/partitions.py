"""Which monthly partitions some samples need."""

from collections.abc import Iterable
from datetime import UTC, date, datetime

# A node whose clock was never set may say 1970 or 2106. Such rows are kept in the default partition, instead of a table
# for each imagined month; what is between these two is a farm's real past and near future.
FIRST_PLAUSIBLE = date(2015, 1, 1)
MONTHS_AHEAD = 3


def months_of(times_us: Iterable[int], today: date | None = None) -> list[date]:
    """The first day of each plausible month, in order."""
    last = _months_later(today or datetime.now(UTC).date(), MONTHS_AHEAD)
    days = {at_us // 86_400_000_000 for at_us in times_us}
    months = {_month_of(day) for day in days}
    return sorted(month for month in months if month is not None and FIRST_PLAUSIBLE <= month <= last)


def _month_of(days_since_epoch: int) -> date | None:
    try:
        return date.fromordinal(date(1970, 1, 1).toordinal() + days_since_epoch).replace(day=1)
    except (ValueError, OverflowError):
        return None  # outside the calendar: the default partition takes it


def _months_later(day: date, months: int) -> date:
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)

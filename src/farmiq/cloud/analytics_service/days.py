"""A farm's days and hours. A farm counts its days by its own clock; measurements come in hours of UTC.

An hour belongs to the day in which it begins, by the farm's clock. In a zone that is half an hour off, the first hour of a
day therefore begins at half past midnight; when clocks change, a day has 23 or 25 hours.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

HOUR_SECONDS = 3600
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Values = NDArray[np.float64]


def hour_number(at: datetime) -> int:
    """Whole hours since the epoch."""
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(hours=1))


def hour_at(number: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=number)


@dataclass(frozen=True)
class Calendar:
    zone: ZoneInfo

    def day_of(self, at: datetime) -> date:
        return at.astimezone(self.zone).date()

    def start_of(self, day: date) -> datetime:
        return datetime.combine(day, time(), self.zone).astimezone(UTC)

    def bounds(self, day: date) -> tuple[datetime, datetime]:
        return self.start_of(day), self.start_of(day + timedelta(days=1))

    def clock(self, at: datetime) -> str:
        """For sentences: a time as the farmer's clock shows it."""
        return f"{at.astimezone(self.zone):%H:%M}"


@dataclass(frozen=True, eq=False)
class Window:
    """The hours of a day and of the days before it that it is compared with, as columns of one length.

    `day_number` counts the days from 0; the day itself has the last one. A series is a column of the same length, NaN where
    it has no sample.
    """

    calendar: Calendar
    day: date
    first_hour: int
    day_number: Numbers
    hour_of_day: Numbers

    @property
    def length(self) -> int:
        return len(self.day_number)

    @property
    def is_today(self) -> Flags:
        """The hours of the day itself."""
        return np.asarray(self.day_number == self.day_number[-1])

    def at(self, index: int) -> datetime:
        return hour_at(self.first_hour + int(index))

    @property
    def end_at(self) -> datetime:
        return self.calendar.bounds(self.day)[1]

    def ended_by(self, now: datetime) -> Flags:
        """Hours that are over."""
        ends = np.arange(self.first_hour + 1, self.first_hour + 1 + self.length)
        return np.asarray(ends * HOUR_SECONDS <= now.timestamp())

    def column(self, hours: Any, values: Any) -> Values:
        """A series' values in this window's hours. What lies outside is left out."""
        column = np.full(self.length, np.nan)
        index = np.asarray(hours, dtype=np.int64) - self.first_hour
        inside = (index >= 0) & (index < self.length)
        column[index[inside]] = np.asarray(values, dtype=np.float64)[inside]
        return column


def window_of(calendar: Calendar, day: date, days_before: int) -> Window:
    first = _first_hour(calendar, day - timedelta(days=days_before))
    end = _first_hour(calendar, day + timedelta(days=1))
    local = [hour_at(hour).astimezone(calendar.zone) for hour in range(first, end)]
    oldest = (day - timedelta(days=days_before)).toordinal()
    return Window(
        calendar,
        day,
        first,
        np.array([moment.date().toordinal() - oldest for moment in local], dtype=np.int64),
        np.array([moment.hour for moment in local], dtype=np.int64),
    )


def _first_hour(calendar: Calendar, day: date) -> int:
    """The first whole hour that begins in the day."""
    return -(-int(calendar.start_of(day).timestamp()) // HOUR_SECONDS)

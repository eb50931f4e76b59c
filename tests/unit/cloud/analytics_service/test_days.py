from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import numpy as np

from farmiq.cloud.analytics_service.days import Calendar, hour_at, hour_number, window_of


def test_an_hour_of_utc_belongs_to_the_day_of_the_farms_clock() -> None:
    calendar = Calendar(ZoneInfo("Asia/Bangkok"))
    assert calendar.day_of(datetime(2026, 3, 14, 17, 0, tzinfo=UTC)) == date(2026, 3, 15)
    assert calendar.day_of(datetime(2026, 3, 14, 16, 59, tzinfo=UTC)) == date(2026, 3, 14)
    start_at, end_at = calendar.bounds(date(2026, 3, 15))
    assert (start_at, end_at) == (datetime(2026, 3, 14, 17, tzinfo=UTC), datetime(2026, 3, 15, 17, tzinfo=UTC))
    assert calendar.clock(datetime(2026, 3, 14, 20, 5, tzinfo=UTC)) == "03:05"


def test_a_day_has_as_many_hours_as_the_clock_gave_it() -> None:
    berlin = Calendar(ZoneInfo("Europe/Berlin"))
    spring, autumn = window_of(berlin, date(2026, 3, 29), 1), window_of(berlin, date(2026, 10, 25), 1)
    assert int(spring.is_today.sum()) == 23
    assert int(autumn.is_today.sum()) == 25
    assert spring.hour_of_day[spring.is_today].tolist() == [0, 1, *range(3, 24)]
    assert set(spring.day_number.tolist()) == {0, 1}


def test_in_a_zone_that_is_half_an_hour_off_an_hour_belongs_where_it_begins() -> None:
    window = window_of(Calendar(ZoneInfo("Asia/Kolkata")), date(2026, 3, 15), 14)
    assert window.at(0) == datetime(2026, 2, 28, 19, tzinfo=UTC)  # half past midnight of 1 March there
    assert window.hour_of_day[:2].tolist() == [0, 1]
    assert np.bincount(window.day_number).tolist() == [24] * 15


def test_columns_leave_out_what_lies_outside() -> None:
    window = window_of(Calendar(ZoneInfo("UTC")), date(2026, 3, 15), 0)
    first = hour_number(datetime(2026, 3, 15, tzinfo=UTC))
    column = window.column([first - 1, first, first + 23, first + 24], [1.0, 2.0, 3.0, 4.0])
    assert column[0] == 2.0
    assert column[23] == 3.0
    assert int(np.isnan(column).sum()) == 22
    assert hour_at(first) == datetime(2026, 3, 15, tzinfo=UTC)
    assert int(window.ended_by(datetime(2026, 3, 15, 2, 30, tzinfo=UTC)).sum()) == 2

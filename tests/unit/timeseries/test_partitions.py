from datetime import UTC, date, datetime

from farmiq.contracts.telemetry import T_MAX_US, T_MIN_US
from farmiq.contracts.timestamps import to_us
from farmiq.timeseries.partitions import months_of

TODAY = date(2026, 11, 16)


def at(year: int, month: int, day: int) -> int:
    return to_us(datetime(year, month, day, tzinfo=UTC))


def test_each_plausible_month_is_named_once_and_in_order() -> None:
    assert months_of([at(2026, 11, 16), at(2026, 10, 31), at(2026, 11, 1)], TODAY) == [
        date(2026, 10, 1),
        date(2026, 11, 1),
    ]


def test_a_clock_that_was_never_set_makes_no_partitions() -> None:
    assert months_of([0, at(1999, 12, 31), at(2106, 2, 7), T_MIN_US, T_MAX_US], TODAY) == []


def test_a_clock_a_little_ahead_still_gets_its_month() -> None:
    assert months_of([at(2027, 2, 1)], TODAY) == [date(2027, 2, 1)]
    assert months_of([at(2027, 3, 1)], TODAY) == []

from datetime import datetime, timedelta
from typing import Any

from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.completeness import data_of, lost_on
from farmiq.cloud.analytics_service.inputs import BarnDay, Kept, Loss
from support.analytics_days import (
    AFTERWARDS,
    DAY,
    DAY_END,
    DAY_START,
    UTC_CALENDAR,
    hours,
    series,
    steady,
    tracks,
    window,
)


def day(now: datetime = AFTERWARDS, **rest: Any) -> BarnDay:
    return BarnDay(UTC_CALENDAR, DAY, now, **rest)


def test_a_device_that_left_is_expected_until_it_did() -> None:
    rows = [hours(series(), lambda day, hour: 1.0 if day < DAYS_BEFORE or hour < 5 else None)]
    stays, left = (data_of(window(), tracks(rows), day(left=frozenset(names))) for names in ((), ("node-1",)))
    assert stays is not None
    assert (stays.hours_expected, stays.hours_present) == (24, 5)
    assert left is not None
    assert (left.hours_expected, left.completeness) == (5, 1.0)


def test_series_hours_with_a_sample() -> None:
    rows = [
        hours(series(sensor="t1"), steady()),
        # Silent for six hours of the day.
        hours(series(sensor="t2"), lambda day, hour: None if day == DAYS_BEFORE and hour < 6 else 1.0 + hour),
        # New at noon: nothing is expected of it before.
        hours(series(sensor="t3"), lambda day, hour: 1.0 if day == DAYS_BEFORE and hour >= 12 else None),
    ]
    found = data_of(window(), tracks(rows), day())
    assert found is not None
    assert (found.series, found.hours_expected, found.hours_present) == (3, 24 + 24 + 12, 24 + 18 + 12)
    assert found.completeness == 54 / 60
    assert found.samples == 54 * 60


def test_hours_that_are_not_over_are_not_expected() -> None:
    rows = [hours(series(), lambda day, hour: 1.0 if day < DAYS_BEFORE or hour < 5 else None)]
    found = data_of(window(), tracks(rows), day(DAY_START + timedelta(hours=6, minutes=30)))
    assert found is not None
    assert (found.hours_expected, found.hours_present) == (6, 5)
    before = data_of(window(), tracks(rows[:0]), day(DAY_START))
    assert before is None


def test_a_loss_over_several_days_is_shared_out() -> None:
    losses = [
        Loss("node-1", DAY_START - timedelta(days=1), DAY_END + timedelta(days=2), 400, "spool_cap"),
        Loss("node-2", DAY_START, DAY_START, 7, "damaged"),
        Loss("node-2", DAY_END, DAY_END, 9, "damaged"),
    ]
    assert lost_on(window(), losses) == 107


def test_what_the_owner_of_the_samples_says_is_shown() -> None:
    found = data_of(window(), [], day(kept=Kept(1000, 3)))
    assert found is not None
    assert (found.samples_stored, found.samples_missing) == (1000, 3)
    assert data_of(window(), [], day(kept=Kept(0, 0))) is None
    assert data_of(window(), [], day()) is None

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from farmiq.timeseries.hours import shared_out

DAY = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
moments = st.timedeltas(timedelta(0), timedelta(hours=60)).map(lambda since: DAY + since)


@given(st.integers(0, 10**9), moments, moments)
def test_all_that_is_shared_out_adds_up_and_lies_between_the_two_times(
    samples: int, one: datetime, other: datetime
) -> None:
    shares = dict(shared_out(samples, one, other, DAY, DAY + timedelta(hours=61)))
    assert sum(shares.values()) == samples
    assert all(min(one, other) < hour_at + HOUR and hour_at <= max(one, other) for hour_at in shares)
    assert all(share > 0 for share in shares.values())


def test_only_the_hours_of_the_range_are_told() -> None:
    shares = dict(shared_out(400, DAY, DAY + 4 * HOUR, DAY + HOUR, DAY + 3 * HOUR))
    assert shares == {DAY + HOUR: 100, DAY + 2 * HOUR: 100}


def test_what_lies_in_one_moment_is_in_its_hour() -> None:
    assert list(shared_out(7, DAY + HOUR, DAY + HOUR, DAY, DAY + 9 * HOUR)) == [(DAY + HOUR, 7)]

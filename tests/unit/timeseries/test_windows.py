from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from farmiq.timeseries.aggregates import CHART_POINTS_MAX, WINDOWS, Window, start_of_bucket, width_of, window_for

START = datetime(2026, 11, 1, tzinfo=UTC)
times = st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds are naive


@given(times, st.timedeltas(timedelta(seconds=1), timedelta(days=4000)))
def test_the_finest_window_is_chosen_that_a_chart_can_draw(since: datetime, length: timedelta) -> None:
    chosen = window_for(since, since + length)
    if chosen != "1d":
        assert length / width_of(chosen) <= CHART_POINTS_MAX
    for finer in WINDOWS[: WINDOWS.index(chosen)]:
        assert length / width_of(finer) > CHART_POINTS_MAX


def test_a_month_is_drawn_in_hours() -> None:
    assert window_for(START, START + timedelta(days=30)) == "1h"


@given(times, st.sampled_from(WINDOWS))
def test_a_moment_lies_in_its_bucket(at: datetime, window: Window) -> None:
    start = start_of_bucket(at, window)
    assert start <= at < start + width_of(window)
    assert start_of_bucket(start, window) == start

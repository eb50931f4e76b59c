"""Between which times something is missing or came late."""

from datetime import UTC, datetime, timedelta

from farmiq.timeseries.completeness import Gap
from farmiq.timeseries.spans import GapSpan, LateSpan, late_between, missing_between

START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def at(minutes: int) -> datetime:
    return START + minutes * MINUTE


def test_late_parts_beside_each_other_are_one_span_with_the_longest_delay() -> None:
    late = [
        (2, timedelta(seconds=70)),
        (3, timedelta(seconds=400)),
        (4, timedelta(seconds=90)),
        (9, timedelta(hours=2)),
    ]
    assert late_between(late, START, MINUTE) == [LateSpan(at(2), at(5), 400.0), LateSpan(at(9), at(10), 7200.0)]


def test_nothing_late_is_no_span() -> None:
    assert late_between([], START, MINUTE) == []


def test_a_gap_is_shown_where_it_reaches_into_the_range() -> None:
    before, across, after = Gap(1, 2, 2, at(0), at(1)), Gap(5, 9, 5, at(8), at(12)), Gap(20, 20, 1, at(30), at(31))
    assert missing_between([after, across, before], at(10), at(20)) == [GapSpan(at(8), at(12), 5)]


def test_a_gap_with_one_neighbour_is_at_that_neighbour_and_one_with_none_is_nowhere() -> None:
    gaps = [Gap(1, 4, 4, None, at(12)), Gap(30, 30, 1, None, None)]
    assert missing_between(gaps, at(10), at(20)) == [GapSpan(at(12), at(12), 4)]

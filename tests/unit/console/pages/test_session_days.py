"""One day of weigh sessions."""

from datetime import UTC, datetime, timedelta

import pytest

from farmiq.console.pages.sessions import Asked, day_range
from farmiq.console.ranges import TimeRange
from farmiq.kit.http_server import ApiError

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def asked(state: str, day: str = "") -> Asked:
    time = day_range(day) if day else TimeRange(NOW - timedelta(hours=24), NOW, "24h")
    return Asked(state=state, device="", batch="batch-1", day=day, time=time, tier="auto")


def test_a_day_is_from_midnight_to_midnight_in_utc() -> None:
    found = day_range("2026-11-16")
    assert (found.since, found.until) == (datetime(2026, 11, 16, tzinfo=UTC), datetime(2026, 11, 17, tzinfo=UTC))


@pytest.mark.parametrize("day", ["2026-02-30", "2026-13-01", "9999-12-31"])
def test_a_day_that_does_not_exist_is_refused(day: str) -> None:
    with pytest.raises(ApiError) as refused:
        day_range(day)
    assert refused.value.status == 400


def test_incomplete_is_a_question_of_its_own_and_not_a_status() -> None:
    assert (asked("incomplete").filter().status, asked("incomplete").filter().is_incomplete) == (None, True)
    assert (asked("finalized").filter().status, asked("finalized").filter().is_incomplete) == ("finalized", False)
    assert asked("").filter().device_id is None


def test_a_link_keeps_the_day_and_a_permalink_its_ends() -> None:
    assert asked("", "2026-11-16").parameters()["day"] == "2026-11-16"
    fixed = asked("", "2026-11-16").parameters(is_fixed=True)
    assert (fixed["day"], fixed["since"]) == (None, "2026-11-16T00:00:00+00:00")

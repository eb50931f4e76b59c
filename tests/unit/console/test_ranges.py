from datetime import UTC, datetime, timedelta

import pytest

from farmiq.console.ranges import LENGTHS, time_range
from farmiq.kit.http_server import ApiError

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_ends_now(name: str) -> None:
    found = time_range(name, None, None, NOW)
    assert (found.until, found.length, found.name) == (NOW, LENGTHS[name], name)


def test_fixed_ends_stay_and_have_no_name() -> None:
    since = datetime(2026, 4, 1)  # noqa: DTZ001 - as a form sends it: without a zone it is UTC
    found = time_range("1h", since, NOW - timedelta(days=1), NOW)
    assert found.since == datetime(2026, 4, 1, tzinfo=UTC)
    assert (found.until, found.name) == (NOW - timedelta(days=1), None)


def test_one_fixed_end_is_enough() -> None:
    assert time_range(None, NOW - timedelta(hours=2), None, NOW).until == NOW
    assert time_range(None, None, NOW, NOW, default="6h").length == timedelta(hours=6)


@pytest.mark.parametrize("name", ["2h", "", "../etc", "24H "])
def test_only_known_lengths_are_taken(name: str) -> None:
    if name == "":
        assert time_range(name, None, None, NOW).name == "24h"
        return
    with pytest.raises(ApiError):
        time_range(name, None, None, NOW)


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ApiError):
        time_range(None, NOW, NOW - timedelta(hours=1), NOW)

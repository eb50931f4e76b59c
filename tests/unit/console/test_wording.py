from datetime import UTC, datetime, timedelta, timezone

import pytest

from farmiq.console import wording
from farmiq.console.wording import UNKNOWN


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, UNKNOWN),
        (0.0, "0.00 %"),
        (99.5, "99.50 %"),
        (100.0, "100.00 %"),
        (99.9999999, "99.99 %"),  # one sample of ten million is missing, and it shows
    ],
)
def test_nothing_is_called_complete_that_is_not(value: float | None, said: str) -> None:
    assert wording.percent(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, UNKNOWN),
        (-1, "0.0 s"),
        (0.42, "0.4 s"),
        (59, "59 s"),
        (120, "2 min"),
        (5400, "1 h 30 min"),
        (7200, "2 h"),
        (timedelta(days=3, hours=4), "3 d 4 h"),
        (86_400 * 19, "19 d"),
    ],
)
def test_durations_are_said_in_their_largest_units(seconds: float | timedelta | None, said: str) -> None:
    assert wording.duration(seconds) == said


@pytest.mark.parametrize(
    ("bytes_", "said"),
    [(None, UNKNOWN), (0, "0 B"), (999, "999 B"),
     (1500, "1.5 kB"), (250_000, "250 kB"), (2_100_000_000, "2.1 GB"), (5e18, "5000 PB")],
)  # fmt: skip
def test_sizes(bytes_: float | None, said: str) -> None:
    assert wording.size(bytes_) == said


def test_what_is_not_known_is_not_zero() -> None:
    assert (wording.count(None), wording.count(0), wording.count(1234567)) == (UNKNOWN, "0", "1,234,567")
    assert (wording.decimal(None), wording.decimal(4.25, 2)) == (UNKNOWN, "4.25")


def test_times_are_shown_in_utc_whatever_zone_they_came_in() -> None:
    at = datetime(2026, 3, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert wording.when(at) == '<time datetime="2026-02-28T23:30:00.000+00:00">2026-02-28 23:30:00</time>'
    assert wording.when(None) == UNKNOWN
    assert "<" not in wording.when(None)
    assert wording.when(datetime(2026, 1, 1, tzinfo=UTC)).startswith("<time")

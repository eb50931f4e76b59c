from math import inf

import pytest

from farmiq.console.overview.delay import delay, quantile


def test_a_quantile_lies_evenly_inside_its_bucket() -> None:
    counts = [(0.1, 0.0), (0.5, 50.0), (1.0, 90.0), (inf, 100.0)]
    assert quantile(counts, 0.5) == pytest.approx(0.5)
    assert quantile(counts, 0.25) == pytest.approx(0.3)
    assert quantile(counts, 0.7) == pytest.approx(0.75)
    assert quantile(counts, 0.99) == 1.0, "beyond the last bucket that has an end"


def test_only_what_came_between_two_looks_counts() -> None:
    before = {0.5: 1000.0, 5.0: 1000.0, inf: 1000.0}
    now = {0.5: 1000.0, 5.0: 1100.0, inf: 1100.0}
    found = delay(now, before, 60.0)
    assert found is not None
    assert (found.batches, found.window_seconds, found.is_beyond) == (100, 60.0, False)
    assert found.p50 == pytest.approx(2.75)
    assert found.p99 == pytest.approx(4.955)


def test_a_first_look_tells_of_everything_since_the_start_and_so_does_one_after_a_restart() -> None:
    counts = {0.5: 10.0, inf: 10.0}
    for before in (None, {0.5: 500.0, inf: 500.0}):
        found = delay(counts, before, 60.0)
        assert found is not None
        assert (found.batches, found.window_seconds) == (10, None)


def test_nothing_measured_is_no_delay_of_zero() -> None:
    assert delay({}, None, 60.0) is None
    assert delay({0.5: 7.0, inf: 7.0}, {0.5: 7.0, inf: 7.0}, 60.0) is None


def test_what_took_longer_than_can_be_told_says_so() -> None:
    found = delay({0.5: 1.0, 60.0: 1.0, inf: 100.0}, None, 60.0)
    assert found is not None
    assert (found.p99, found.is_beyond) == (60.0, True)

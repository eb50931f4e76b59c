from datetime import timedelta

import numpy as np
import pytest

from farmiq.cloud.analytics_service.growth import gain_of, growth_of
from support.analytics_days import DAY, weighings


def test_three_days_of_one_kilogram_each() -> None:
    # 10 kg, then 11, then 12 for each animal; one stood on the scale with half its weight.
    days = {2: [10.0, 10.0, 10.0], 1: [11.0, 11.0, 5.0], 0: [12.0, 12.0, 12.0]}
    found = growth_of(weighings(days), DAY, 14)
    assert found is not None
    assert found.batch is not None
    assert found.batch.daily_gain_kg == 1.0
    assert (found.batch.days, found.batch.weights) == (3, 9)
    assert found.recent == found.batch


def test_one_day_says_nothing_of_growth() -> None:
    assert growth_of(weighings({0: [10.0, 12.0, 14.0]}), DAY, 14) is None
    assert gain_of([]) is None


def test_the_recent_gain_is_that_of_the_last_days_only() -> None:
    # A kilogram a day for twenty days, then half of it for ten.
    curve = {before: [20.0 + (30 - before if before >= 10 else 20 + (10 - before) / 2)] for before in range(31)}
    found = growth_of(weighings(curve), DAY, 8)
    assert found is not None
    assert found.recent is not None
    assert found.recent.daily_gain_kg == pytest.approx(0.5)
    assert (found.recent.days, found.recent.weights) == (8, 8)
    assert found.batch is not None
    assert 0.5 < found.batch.daily_gain_kg < 1.0
    assert (found.batch.days, found.batch.weights) == (31, 31)


def test_the_interval_holds_the_truth_among_noisy_animals() -> None:
    generator = np.random.default_rng(11)
    days = {before: (50 - 0.75 * before + generator.normal(0, 5, 40)).tolist() for before in range(21)}
    days[3] = [400.0] * 8 + days[3][8:]
    found = gain_of(weighings(days))
    assert found is not None
    assert found.daily_gain_kg == pytest.approx(0.75, abs=0.08)
    assert found.low_kg is not None
    assert found.high_kg is not None
    assert found.low_kg < 0.75 < found.high_kg
    assert found.high_kg - found.low_kg < 0.2


def test_what_is_told_in_another_order_is_the_same() -> None:
    rows = weighings({before: [30.0 + before % 4, 31.0 - before / 3] for before in range(12)})
    assert growth_of(rows[::-1], DAY, 14) == growth_of(rows, DAY, 14)
    assert gain_of([one for one in rows if one.day > DAY - timedelta(days=1)]) is None

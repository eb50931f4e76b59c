import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.cloud.analytics_service.robust import column_medians, spread, theil_sen, thinned


def line(x: list[float], y: list[float]):  # type: ignore[no-untyped-def]  # the type is what is asserted
    return theil_sen(np.array(x, dtype=float), np.array(y, dtype=float))


def test_one_wild_point_does_not_bend_the_line() -> None:
    # Six slopes of 1 between the first four points, then 25, 33, 49 and 97: their median is 1.
    found = line([0, 1, 2, 3, 4], [0, 1, 2, 3, 100])
    assert found is not None
    assert (found.slope, found.intercept, found.points) == (1.0, 0.0, 5)
    # Of ten slopes the interval would reach beyond the first: five points are too few for 95 %.
    assert (found.slope_low, found.slope_high) == (None, None)
    assert found.is_level


def test_the_interval_is_sens() -> None:
    # 15 slopes: ten of 1, then 2, 9/4, 8/3, 7/2, 6. Kendall's variance is 6*5*17/18, so 1.96 sigma is 10.43: from the second
    # slope to the fourteenth.
    found = line([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 10])
    assert found is not None
    assert (found.slope, found.slope_low, found.slope_high) == (1.0, 1.0, 3.5)
    assert not found.is_level


def test_points_of_the_same_x_give_no_slope() -> None:
    found = line([0, 0, 1, 1], [10, 12, 11, 13])  # slopes 1, 3, -1, 1
    assert found is not None
    assert found.slope == 1.0
    assert line([3, 3, 3], [1, 2, 3]) is None
    assert line([], []) is None


def test_holes_count_for_nothing_in_a_columns_median() -> None:
    rows = np.array([[1.0, np.nan, 5.0], [3.0, np.nan, np.nan], [2.0, np.nan, 7.0]])
    medians, counts = column_medians(rows)
    assert counts.tolist() == [3, 0, 2]
    assert medians[0] == 2.0
    assert np.isnan(medians[1])
    assert medians[2] == 6.0


def test_spread_is_the_deviation_of_normal_values() -> None:
    assert spread(np.array([1.0, 2.0, 3.0, 4.0, 100.0])) == pytest.approx(1.4826)
    noise = np.random.default_rng(7).normal(0, 3, 20_000)
    assert spread(noise) == pytest.approx(3, rel=0.05)


def test_fewer_points_keep_the_shape() -> None:
    generator = np.random.default_rng(3)
    days = np.repeat(np.arange(30.0), 200)
    weights = 30 + 0.8 * days + generator.normal(0, 4, len(days))
    x, _ = thinned(days, weights, 1500)
    assert len(x) == 1500
    assert np.unique(x, return_counts=True)[1].tolist() == [50] * 30
    found = theil_sen(days, weights)
    assert found is not None
    assert found.slope == pytest.approx(0.8, abs=0.02)
    assert found.slope_low is not None
    assert found.slope_low < 0.8 < (found.slope_high or 0)


@given(
    slope=st.floats(-50, 50),
    intercept=st.floats(-1000, 1000),
    wild=st.lists(st.floats(-1e6, 1e6), max_size=5),
    points=st.integers(20, 40),
)
def test_a_quarter_of_wild_points_leaves_a_straight_line_where_it_is(
    slope: float, intercept: float, wild: list[float], points: int
) -> None:
    x = np.arange(float(points))
    y = intercept + slope * x
    # Spread through the line: all at one end they would be a second line.
    y[np.linspace(1, points - 2, len(wild)).astype(int)] = wild
    found = theil_sen(x, y)
    assert found is not None
    assert found.slope == pytest.approx(slope, abs=1e-6 + abs(slope) * 1e-6)

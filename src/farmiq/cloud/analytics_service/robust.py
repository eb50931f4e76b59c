"""Statistics that a few wrong values cannot move: medians, spreads by the median, and a line through noisy points."""

from math import ceil, floor, sqrt
from statistics import NormalDist

import msgspec
import numpy as np

from farmiq.cloud.analytics_service.days import Numbers, Values

NORMAL_MAD = 1.4826
"""For normal noise the median absolute deviation times this is the standard deviation."""
POINTS_MAX = 1500
"""A line looks at every pair of points: this many make about a million."""


class Line(msgspec.Struct, frozen=True):
    """`slope_low` and `slope_high` are None where the points are too few for an interval of that confidence."""

    slope: float
    intercept: float
    slope_low: float | None
    slope_high: float | None
    points: int

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x

    @property
    def is_level(self) -> bool:
        """Nothing says that it rises or falls."""
        if self.slope_low is None or self.slope_high is None:
            return True
        return self.slope_low <= 0.0 <= self.slope_high


def spread(values: Values) -> float:
    """The standard deviation that normal values of this median absolute deviation would have."""
    return NORMAL_MAD * float(np.median(np.abs(values - np.median(values))))


def column_medians(rows: Values) -> tuple[Values, Numbers]:
    """The median of each column of a table with holes (NaN), and how many values it was made of. NaN where there are none."""
    ordered = np.sort(rows, axis=0)  # NaN goes to the end
    counts = np.sum(~np.isnan(rows), axis=0)
    columns = np.arange(rows.shape[1])
    lower, upper = np.maximum(counts - 1, 0) // 2, np.minimum(counts // 2, max(len(rows) - 1, 0))
    return (ordered[lower, columns] + ordered[upper, columns]) / 2, counts


def theil_sen(x: Values, y: Values, confidence: float = 0.95) -> Line | None:
    """The median of the slopes between all pairs of points, with Sen's interval. None when all have one x.

    Nearly three tenths of the points may be anything at all without moving it far. Points of the same x give no slope; the
    interval's width follows from how many there are of each x (Kendall's variance, corrected for ties in x).
    """
    if len(x) > POINTS_MAX:
        x, y = thinned(x, y, POINTS_MAX)
    first, second = np.triu_indices(len(x), 1)
    run = x[second] - x[first]
    is_apart = run != 0
    slopes = np.sort((y[second] - y[first])[is_apart] / run[is_apart])
    if not len(slopes):
        return None
    slope = float(np.median(slopes))
    low, high = _sen_interval(slopes, x, confidence)
    return Line(slope, float(np.median(y - slope * x)), low, high, len(x))


def thinned(x: Values, y: Values, points_max: int) -> tuple[Values, Values]:
    """Fewer points of the same shape: of each x the same number, evenly spaced through its ordered values."""
    places, counts = np.unique(x, return_counts=True)
    share = max(1, points_max // len(places))
    picked_x, picked_y = [], []
    for place, count in zip(places, counts, strict=True):
        ordered = np.sort(y[x == place])
        taken = min(share, count)
        middles = ((np.arange(taken) + 0.5) * count / taken).astype(np.int64)
        picked_y.append(ordered[middles])
        picked_x.append(np.full(taken, place))
    return np.concatenate(picked_x), np.concatenate(picked_y)


def _sen_interval(slopes: Values, x: Values, confidence: float) -> tuple[float | None, float | None]:
    ties = np.unique(x, return_counts=True)[1].astype(np.float64)
    variance = (_pairs_weight(float(len(x))) - sum(map(_pairs_weight, ties))) / 18
    width = NormalDist().inv_cdf(0.5 + confidence / 2) * sqrt(max(variance, 0.0))
    lower, upper = floor((len(slopes) - width) / 2), ceil((len(slopes) + width) / 2)
    if lower < 1 or upper >= len(slopes):
        return None, None
    return float(slopes[lower - 1]), float(slopes[upper])


def _pairs_weight(count: float) -> float:
    return count * (count - 1) * (2 * count + 5)

"""How fast a batch gains weight: a line through the weights of its days that a few wrong ones cannot bend."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

import numpy as np

from farmiq.cloud.analytics_service.inputs import Weighing
from farmiq.cloud.analytics_service.kpis import Gain, Growth
from farmiq.cloud.analytics_service.robust import Line, theil_sen


def growth_of(weighings: Sequence[Weighing], day: date, recent_days: int) -> Growth | None:
    """Of one batch up to and with `day`. None before it was weighed on two days."""
    whole = gain_of(weighings)
    if whole is None:
        return None
    return Growth(batch=whole, recent=gain_of(recent(weighings, day, recent_days)))


def recent(weighings: Iterable[Weighing], day: date, recent_days: int) -> list[Weighing]:
    """Of the last days, with `day` among them."""
    oldest = day - timedelta(days=recent_days - 1)
    return [one for one in weighings if oldest <= one.day <= day]


def gain_of(weighings: Sequence[Weighing]) -> Gain | None:
    line = line_of(weighings)
    if line is None:
        return None
    days = {one.day for one in weighings}
    return Gain(
        daily_gain_kg=line.slope,
        low_kg=line.slope_low,
        high_kg=line.slope_high,
        days=(max(days) - min(days)).days + 1,
        weights=len(weighings),
    )


def line_of(weighings: Sequence[Weighing]) -> Line | None:
    """Weight over days (`date.toordinal`). All animals of a day stand at the same x: what differs within a day is no growth."""
    ordered = sorted((one.day.toordinal(), one.weight_kg) for one in weighings)
    if not ordered:
        return None
    days, weights = np.array(ordered, dtype=np.float64).T
    return theil_sen(days, weights)

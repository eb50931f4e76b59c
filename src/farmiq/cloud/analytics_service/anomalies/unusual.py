"""A value that this hour of the day does not have: a robust z-score with a season of 24 hours.

For each hour of the day the usual value is the median of the same hour on the days before, and the usual spread is the larger of
that hour's own and of all hours' together (both by the median absolute deviation). An hour is unusual when its mean is further
from the median than `unusual_z` spreads.
"""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np

from farmiq.cloud.analytics_service.anomalies.found import (
    Anomaly,
    AnomalyLimits,
    Evidence,
    counted,
    number,
    subject_of,
    worst_first,
)
from farmiq.cloud.analytics_service.days import Values, Window
from farmiq.cloud.analytics_service.inputs import Track
from farmiq.cloud.analytics_service.robust import NORMAL_MAD, column_medians, spread

SPREAD_SHARE_MIN = 0.005
"""Of the usual value: what never moved before may move this much without being strange. 20 degrees have 0.1."""
SPREAD_MIN = 1e-9


def unusual_values(window: Window, tracks: Sequence[Track], limits: AnomalyLimits) -> list[Anomaly]:
    found = [_of_series(window, track, limits) for track in tracks]
    return [one for one in found if one is not None]


def _of_series(window: Window, track: Track, limits: AnomalyLimits) -> Anomaly | None:
    is_today = window.is_today
    values, hours = track.mean[is_today], window.hour_of_day[is_today]
    usual, spreads, days = usual_hours(window, track.mean)
    centre, width = usual[hours], spreads[hours] * limits.unusual_z
    with np.errstate(invalid="ignore"):
        is_unusual = (days[hours] >= limits.usual_days_min) & (np.abs(values - centre) > width)
    if not is_unusual.any():
        return None
    first = int(np.flatnonzero(is_today)[0])
    rows = [
        (
            float(abs(values[index] - centre[index]) / width[index]),
            Evidence(
                at=window.at(first + int(index)),
                value=float(values[index]),
                lower=float(centre[index] - width[index]),
                upper=float(centre[index] + width[index]),
                unit=track.series.unit,
                device_id=track.series.device_id,
                metric=track.series.metric,
                sensor=track.series.sensor or None,
            ),
        )
        for index in np.flatnonzero(is_unusual)
    ]
    return _anomaly(window, track, rows)


def usual_hours(window: Window, values: Values) -> tuple[Values, Values, Values]:
    """For each hour of the day: the usual value, the usual spread, and from how many days before they come."""
    before = int(window.day_number[-1])
    grid = np.full((max(before, 1), 24), np.nan)
    is_before = ~window.is_today
    grid[window.day_number[is_before], window.hour_of_day[is_before]] = values[is_before]
    usual, days = column_medians(grid)
    off = grid - usual
    own = NORMAL_MAD * column_medians(np.abs(off))[0]
    known = off[~np.isnan(off)]
    together = spread(known) if len(known) else 0.0
    floor = np.maximum(SPREAD_SHARE_MIN * np.abs(usual), SPREAD_MIN)
    return usual, np.fmax(np.fmax(own, together), floor), days.astype(np.float64)


def _anomaly(window: Window, track: Track, rows: list[tuple[float, Evidence]]) -> Anomaly:
    times = [evidence.at for _, evidence in rows]
    evidence = worst_first(rows)
    worst = evidence[0]
    series, unit = track.series, f" {track.series.unit}" if track.series.unit else ""
    return Anomaly(
        kind="unusual_value",
        severity="critical" if max(score for score, _ in rows) >= 2 else "warning",
        subject=subject_of(series),
        device_id=series.device_id,
        metric=series.metric,
        sensor=series.sensor or None,
        start_at=min(times),
        end_at=max(times) + timedelta(hours=1),
        explanation=(
            f"The {series.name} was {number(worst.value)}{unit} on average in the hour from "
            f"{window.calendar.clock(worst.at)}, where {number(worst.lower)} to {number(worst.upper)}{unit} is usual at that "
            f"time of day. Out of the usual on this day: {counted(len(rows), 'hour', 'hours')}."
        ),
        evidence=evidence,
        evidence_count=len(rows),
    )

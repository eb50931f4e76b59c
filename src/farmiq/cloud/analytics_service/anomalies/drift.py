"""A sensor that slowly leaves the others of its kind in the barn.

For each day the sensor's difference from the middle of the others is taken (the median over the day's hours), and a robust
line is laid through these days. It is drift when the line surely rises or falls (its 95 % interval does not hold 0) and the way
it has gone over the window is more than `drift_z` times what the difference scatters by. A constant offset is no drift: that is
how the sensors are placed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from farmiq.cloud.analytics_service.anomalies.found import (
    Anomaly,
    AnomalyLimits,
    Evidence,
    number,
    subject_of,
    worst_first,
)
from farmiq.cloud.analytics_service.days import Values, Window
from farmiq.cloud.analytics_service.inputs import Track
from farmiq.cloud.analytics_service.robust import Line, column_medians, spread, theil_sen

HOURS_OF_DAY_MIN = 6
MANY_SENSORS = 8
"""From here on a sensor's own part in the middle of all is too small to matter, and the middle is made once for all."""
WAY_SHARE_MIN = 0.01
"""Of the level itself: less is what sensors of one kind are allowed to differ by."""


@dataclass(frozen=True, eq=False)
class _Trend:
    """`days` are day numbers of the window, `offsets` the sensor's difference from the others on each."""

    days: Values
    offsets: Values
    line: Line
    limit: float

    @property
    def way(self) -> float:
        return self.line.slope * float(self.days[-1] - self.days[0])

    @property
    def is_drift(self) -> bool:
        return not self.line.is_level and abs(self.way) > self.limit


def drifts(window: Window, tracks: Sequence[Track], limits: AnomalyLimits) -> list[Anomaly]:
    def kind(track: Track) -> tuple[str, str]:
        return track.series.metric, track.series.unit

    found: list[Anomaly] = []
    for _, group in groupby(sorted(tracks, key=lambda track: (*kind(track), track.series)), key=kind):
        found += _of_kind(window, list(group), limits)
    return found


def _of_kind(window: Window, tracks: list[Track], limits: AnomalyLimits) -> Iterator[Anomaly]:
    if len(tracks) < 2:
        return
    rows = np.array([track.mean for track in tracks])
    # Of two nobody can say which one is wrong: they are told as one, under the first one's name.
    judged = tracks[:1] if len(tracks) == 2 else tracks
    everyone = column_medians(rows)[0] if len(tracks) >= MANY_SENSORS else None
    for index, track in enumerate(judged):
        others = everyone if everyone is not None else column_medians(np.delete(rows, index, axis=0))[0]
        trend = _trend(window, track.mean - others, others, limits)
        if trend is not None and trend.is_drift:
            yield _anomaly(window, track, tracks[1] if len(tracks) == 2 else None, len(tracks) - 1, trend)


def _trend(window: Window, offsets: Values, level: Values, limits: AnomalyLimits) -> _Trend | None:
    days, medians = [], []
    for day in range(int(window.day_number[-1]) + 1):
        known = offsets[window.day_number == day]
        known = known[~np.isnan(known)]
        if len(known) >= HOURS_OF_DAY_MIN:
            days.append(float(day))
            medians.append(float(np.median(known)))
    if len(days) < limits.drift_days_min or days[-1] != window.day_number[-1]:
        return None
    x, y = np.array(days), np.array(medians)
    line = theil_sen(x, y)
    if line is None:
        return None
    known = ~np.isnan(offsets)
    noise = spread(offsets[known] - (line.intercept + line.slope * window.day_number[known]))
    least = WAY_SHARE_MIN * abs(float(np.nanmedian(level)))
    return _Trend(x, y, line, max(limits.drift_z * noise, least))


def _anomaly(window: Window, track: Track, other: Track | None, others: int, trend: _Trend) -> Anomaly:
    series, unit = track.series, f" {track.series.unit}" if track.series.unit else ""
    against = f"the {other.series.name}" if other else f"the middle of the {others} others of its kind in the barn"
    first_day = window.day.toordinal() - int(window.day_number[-1])
    rows = [
        Evidence(
            at=window.calendar.start_of(window.day.fromordinal(first_day + int(day))),
            value=float(offset),
            lower=float(trend.offsets[0]) - trend.limit,
            upper=float(trend.offsets[0]) + trend.limit,
            unit=series.unit,
            device_id=series.device_id,
            metric=series.metric,
            sensor=series.sensor or None,
            note=f"difference from {against}, middle of the day",
        )
        for day, offset in zip(trend.days, trend.offsets, strict=True)
    ]
    return Anomaly(
        kind="drift",
        severity="critical" if abs(trend.way) > 2 * trend.limit else "warning",
        subject=subject_of(series),
        device_id=series.device_id,
        metric=series.metric,
        sensor=series.sensor or None,
        start_at=rows[0].at,
        end_at=window.end_at,
        explanation=(
            f"The {series.name} has moved {number(abs(trend.way))}{unit} {'up' if trend.way > 0 else 'down'} against {against} "
            f"in {int(trend.days[-1] - trend.days[0])} days, where {number(trend.limit)}{unit} is allowed: "
            + ("one of the two needs calibration." if other else "the sensor needs calibration or cleaning.")
        ),
        evidence=worst_first((0.0, row) for row in rows),
        evidence_count=len(rows),
    )

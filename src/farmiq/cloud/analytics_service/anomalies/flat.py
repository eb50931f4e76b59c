"""A sensor that has stopped moving.

An hour moves when its samples differ among themselves or its mean differs from that of the hour before. A run of hours that do
not move is a flat line when it is `flat_hours` long and the series used to move in nearly every hour: a switch or a set point,
which stands still by nature, is never one.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np

from farmiq.cloud.analytics_service.anomalies.found import (
    EVIDENCE_ROWS_MAX,
    Anomaly,
    AnomalyLimits,
    Evidence,
    counted,
    number,
    runs,
    subject_of,
)
from farmiq.cloud.analytics_service.days import Flags, Window
from farmiq.cloud.analytics_service.inputs import Track

MOVING_SHARE_MIN = 0.8
HOURS_BEFORE_MIN = 24


def flat_lines(window: Window, tracks: Sequence[Track], limits: AnomalyLimits, now: datetime) -> list[Anomaly]:
    found = [_of_series(window, track, limits, now) for track in tracks]
    return [one for one in found if one is not None]


def _of_series(window: Window, track: Track, limits: AnomalyLimits, now: datetime) -> Anomaly | None:
    moves = moving_hours(track)
    today = int(np.flatnonzero(window.is_today)[0])
    stands = [
        (first, last)
        for first, last in runs(track.is_present & ~moves)
        if last - first + 1 >= limits.flat_hours and last >= today
    ]
    if not stands or not _used_to_move(track, moves, stands[0][0]):
        return None
    return _anomaly(window, track, stands, now)


def moving_hours(track: Track) -> Flags:
    before = np.concatenate(([np.nan], track.mean[:-1]))
    # Where the hour before has no sample there is nothing to compare with, and NaN differs from everything.
    return np.asarray((track.high > track.low) | (track.mean != before))


def _used_to_move(track: Track, moves: Flags, until: int) -> bool:
    known = track.is_present[:until]
    return int(known.sum()) >= HOURS_BEFORE_MIN and float(moves[:until][known].mean()) >= MOVING_SHARE_MIN


def _anomaly(window: Window, track: Track, stands: list[tuple[int, int]], now: datetime) -> Anomaly:
    series = track.series
    hours = sum(last - first + 1 for first, last in stands)
    first, last = max(stands, key=lambda stand: stand[1] - stand[0])
    known = np.flatnonzero(track.is_present)
    goes_on = stands[-1][1] == known[-1] and now < window.end_at
    indexes = [index for begin, end in stands for index in range(begin, end + 1)]
    return Anomaly(
        kind="flat_line",
        severity="critical" if last - first + 1 >= 24 else "warning",
        subject=subject_of(series),
        device_id=series.device_id,
        metric=series.metric,
        sensor=series.sensor or None,
        start_at=window.at(stands[0][0]),
        end_at=None if goes_on else window.at(stands[-1][1]) + timedelta(hours=1),
        explanation=(
            f"The {series.name} stood at exactly {number(float(track.mean[first]))}"
            f"{' ' + series.unit if series.unit else ''} for {counted(last - first + 1, 'hour', 'hours')} "
            f"from {window.calendar.clock(window.at(first))}, though it used to move in nearly every hour: the sensor may "
            "be stuck or frozen."
        ),
        evidence=tuple(
            Evidence(
                at=window.at(index),
                value=float(track.mean[index]),
                lower=float(track.low[index]),
                upper=float(track.high[index]),
                unit=series.unit,
                device_id=series.device_id,
                metric=series.metric,
                sensor=series.sensor or None,
                note="lowest and highest of the hour are the same",
            )
            for index in indexes[:EVIDENCE_ROWS_MAX]
        ),
        evidence_count=hours,
    )

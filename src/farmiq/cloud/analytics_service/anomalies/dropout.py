"""Hours without a sample where there should be some.

An hour is expected when the series had samples in the same hour of the day on at least half of the days between the first and the
last on which it was seen, so that a device which sleeps at night is not missed every night. A device that has since been heard in
another barn was carried there, and is not missed. When all series of a device are silent the device is named once,
and when all devices of a barn are, the barn: then it is the edge or its link that is away, and what it has measured comes later.

The hour in which a series was last heard, and those before it, get `dropout_grace_hours` for their aggregate to come. An hour
after it is silent as soon as it is over.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np

from farmiq.cloud.analytics_service.anomalies.found import (
    Anomaly,
    AnomalyLimits,
    Evidence,
    Severity,
    counted,
    number,
    runs,
    subject_of,
    worst_first,
)
from farmiq.cloud.analytics_service.days import HOUR_SECONDS, Flags, Window
from farmiq.cloud.analytics_service.inputs import Heard, Loss, Series, Track

DAYS_SEEN_MIN = 3
CRITICAL_HOURS = 6


class _Silence:
    """The hours of the day in which a series should have spoken and did not."""

    def __init__(self, track: Track, heard: Heard | None, is_missing: Flags) -> None:
        self.track = track
        self.heard = heard
        self.is_missing = is_missing


def dropouts(
    window: Window,
    tracks: Sequence[Track],
    heard: Mapping[Series, Heard],
    losses: Sequence[Loss],
    limits: AnomalyLimits,
    now: datetime,
) -> list[Anomaly]:
    """`tracks` of devices that are still here."""
    silences = [
        _Silence(
            track, heard.get(track.series), is_expected & ~track.is_present & _judged(window, track, heard, limits, now)
        )
        for track in tracks
        if (is_expected := expected_hours(window, track)).any()
    ]
    found: list[Anomaly] = []
    by_device: dict[str, list[_Silence]] = {}
    for silence in silences:
        by_device.setdefault(silence.track.series.device_id, []).append(silence)
    if len(by_device) > 1:
        found += _of_group(window, silences, None, losses, limits, now)
    for device_id, group in sorted(by_device.items()):
        if len(group) > 1:
            found += _of_group(window, group, device_id, losses, limits, now)
        for silence in group:
            found += _of_group(window, [silence], device_id, losses, limits, now)
    return found


def expected_hours(window: Window, track: Track) -> Flags:
    """Hours of the day in which this series usually has samples."""
    is_before = ~window.is_today
    seen = np.flatnonzero(track.is_present & is_before)
    if not len(seen):
        return np.zeros(window.length, dtype=np.bool_)
    days = int(window.day_number[seen[-1]] - window.day_number[seen[0]]) + 1
    if days < DAYS_SEEN_MIN:
        return np.zeros(window.length, dtype=np.bool_)
    often = np.bincount(window.hour_of_day[seen], minlength=24) * 2 >= days
    return np.asarray(often[window.hour_of_day] & window.is_today)


def _judged(window: Window, track: Track, heard: Mapping[Series, Heard], limits: AnomalyLimits, now: datetime) -> Flags:
    last = heard.get(track.series)
    is_over = window.ended_by(now)
    if last is None:
        return is_over
    starts = np.arange(window.first_hour, window.first_hour + window.length) * HOUR_SECONDS
    has_spoken_since = starts <= last.at.timestamp()
    return np.where(has_spoken_since, window.ended_by(now - timedelta(hours=limits.dropout_grace_hours)), is_over)


def _of_group(
    window: Window,
    silences: Sequence[_Silence],
    device_id: str | None,
    losses: Sequence[Loss],
    limits: AnomalyLimits,
    now: datetime,
) -> list[Anomaly]:
    """Where all of these are silent together. What is told here is not told again for each of them."""
    together = np.logical_and.reduce([silence.is_missing for silence in silences])
    found = [run for run in runs(together) if run[1] - run[0] + 1 >= limits.dropout_hours]
    if not found:
        return []
    for silence in silences:
        for first, last in found:
            silence.is_missing[first : last + 1] = False
    hours = sum(last - first + 1 for first, last in found)
    start_at = min(_since(window, silence, found[0][0]) for silence in silences)
    end_at = _until(window, [silence.track for silence in silences], found[-1][1], now)
    alone = silences[0].track.series if len(silences) == 1 else None
    return [
        Anomaly(
            kind="dropout",
            severity=_severity(hours, device_id),
            subject=subject_of(alone) if alone else device_id or "",
            device_id=device_id,
            metric=alone.metric if alone else None,
            sensor=(alone.sensor or None) if alone else None,
            start_at=start_at,
            end_at=end_at,
            explanation=_sentence(window, silences, device_id, hours, start_at)
            + _explained(losses, device_id, start_at, end_at),
            evidence=worst_first((0.0, _evidence(window, silence, found[0][0])) for silence in silences),
            evidence_count=len(silences),
        )
    ]


def _severity(hours: int, device_id: str | None) -> Severity:
    return "critical" if hours >= CRITICAL_HOURS or device_id is None else "warning"


def _since(window: Window, silence: _Silence, first: int) -> datetime:
    """When it was last heard before the silence, as exactly as that is known."""
    present = np.flatnonzero(silence.track.is_present[:first])
    known_at = window.at(int(present[-1]) + 1) if len(present) else window.at(first)
    heard = silence.heard
    return max(known_at, heard.at) if heard and heard.at < window.at(first) else known_at


def _until(window: Window, tracks: Iterable[Track], last: int, now: datetime) -> datetime | None:
    """When the first of them spoke again; None while the day goes on and none has."""
    again = np.logical_or.reduce([track.is_present for track in tracks])[last + 1 :]
    if again.any():
        return window.at(last + 1 + int(np.argmax(again)))
    return None if now < window.end_at else window.end_at


def _evidence(window: Window, silence: _Silence, first: int) -> Evidence:
    series, heard = silence.track.series, silence.heard
    is_known = heard is not None and heard.at < window.at(first)
    return Evidence(
        at=_since(window, silence, first),
        value=heard.value if heard is not None and is_known else None,
        unit=series.unit,
        device_id=series.device_id,
        metric=series.metric,
        sensor=series.sensor or None,
        note="the last sample before the silence" if is_known else "the end of the last hour with samples",
    )


def _sentence(
    window: Window, silences: Sequence[_Silence], device_id: str | None, hours: int, start_at: datetime
) -> str:
    since = f"{window.calendar.clock(start_at)} on {window.calendar.day_of(start_at)}"
    lasted = f"was silent for {counted(hours, 'hour', 'hours')} of this day, since {since}"
    if device_id is None:
        return f"The whole barn {lasted}: the edge or its link is likely away, and what was measured comes later."
    if len(silences) > 1:
        return f"The device {device_id} {lasted}: none of its {len(silences)} series has a sample."
    series, heard = silences[0].track.series, silences[0].heard
    told = f" It last said {number(heard.value)}{' ' + series.unit if series.unit else ''}." if heard else ""
    return f"The {series.name} {lasted}, at hours in which it usually speaks.{told}"


def _explained(losses: Sequence[Loss], device_id: str | None, start_at: datetime, end_at: datetime | None) -> str:
    mine = [
        loss
        for loss in losses
        if device_id in (None, loss.device_id)
        and loss.last_at >= start_at
        and (end_at is None or loss.first_at <= end_at)
    ]
    if not mine:
        return ""
    reasons = ", ".join(sorted({loss.reason for loss in mine}))
    return f" {counted(sum(loss.samples for loss in mine), 'sample', 'samples')} of this time are declared lost ({reasons})."

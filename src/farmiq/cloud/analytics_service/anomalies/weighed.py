"""Weights that cannot be right: off the batch's line, jumping within a session or between days, or not what the camera saw.

One anomaly for each batch, kind and day; the sessions are its evidence.
"""

from collections.abc import Sequence
from datetime import date

import numpy as np

from farmiq.cloud.analytics_service.anomalies.found import (
    Anomaly,
    AnomalyLimits,
    Evidence,
    Kind,
    counted,
    number,
    worst_first,
)
from farmiq.cloud.analytics_service.days import Calendar
from farmiq.cloud.analytics_service.growth import line_of, recent
from farmiq.cloud.analytics_service.inputs import WEIGHT_KG_MIN, Session, Weighing
from farmiq.cloud.analytics_service.robust import spread

SPREAD_SHARE_MIN = 0.01
"""Of the expected weight: no scale in a barn is better than that."""

Scored = tuple[float, Evidence]
"""How many times the limit was crossed by, and the row."""


def weight_anomalies(
    calendar: Calendar,
    day: date,
    batch_id: str,
    sessions: Sequence[Session],
    weighings: Sequence[Weighing],
    limits: AnomalyLimits,
) -> list[Anomaly]:
    """Of one batch. `sessions` are those of the day, `weighings` all up to and with it."""
    judged: list[tuple[Kind, str, list[Scored]]] = [
        ("weight_outlier", "off the batch's line of growth", outliers(sessions, weighings, day, limits)),
        ("weight_jump", "with a jump within the session", jumps(sessions, limits)),
        ("vision_disagreement", "in which camera and scale disagree", disagreements(sessions, limits)),
    ]
    found = [_anomaly(kind, what, batch_id, len(sessions), rows) for kind, what, rows in judged if rows]
    return found + batch_jumps(calendar, day, batch_id, weighings, limits)


def outliers(
    sessions: Sequence[Session], weighings: Sequence[Weighing], day: date, limits: AnomalyLimits
) -> list[Scored]:
    """Against a line through the last days only: over its whole life no animal grows in a straight line."""
    lately = recent(weighings, day, limits.recent_days)
    if len(lately) < limits.weight_sessions_min:
        return []
    days = np.array([one.day.toordinal() for one in lately], dtype=np.float64)
    told = np.array([one.weight_kg for one in lately])
    line = line_of(lately)
    expected = float(np.median(told)) if line is None else line.at(day.toordinal())
    off = told - (expected if line is None else line.intercept + line.slope * days)
    width = limits.weight_z * max(spread(off), SPREAD_SHARE_MIN * abs(expected), WEIGHT_KG_MIN)
    return [
        (
            abs(session.weight_kg - expected) / width,
            _row(session, session.weight_kg, expected - width, expected + width),
        )
        for session in sessions
        if session.weight_kg is not None and abs(session.weight_kg - expected) > width
    ]


def jumps(sessions: Sequence[Session], limits: AnomalyLimits) -> list[Scored]:
    """One animal, a few minutes: whatever the scale told in between must be near what it told in the end."""
    found: list[Scored] = []
    for session in sessions:
        weight = session.weight_kg
        told = [kg for kg in (session.initial_kg, *session.recorded_kg) if kg is not None and kg >= WEIGHT_KG_MIN]
        if weight is None or not told:
            continue
        furthest = max(told, key=lambda kg: (abs(kg - weight), kg))
        width = limits.weight_jump * weight
        if abs(furthest - weight) > width:
            note = f"told on the way; in the end {number(weight)} kg"
            found.append(
                (abs(furthest - weight) / width, _row(session, furthest, weight - width, weight + width, note))
            )
    return found


def disagreements(sessions: Sequence[Session], limits: AnomalyLimits) -> list[Scored]:
    found: list[Scored] = []
    for session in sessions:
        weight, seen = session.weight_kg, session.seen
        if weight is None or seen is None:
            continue
        width = limits.vision_disagreement * weight
        if abs(seen.predicted_kg - weight) > width:
            note = f"camera ({seen.model_version}, confidence {seen.confidence:.2f}); scale {number(weight)} kg"
            row = _row(session, seen.predicted_kg, weight - width, weight + width, note)
            found.append((abs(seen.predicted_kg - weight) / width, row))
    return found


def batch_jumps(
    calendar: Calendar, day: date, batch_id: str, weighings: Sequence[Weighing], limits: AnomalyLimits
) -> list[Anomaly]:
    """The day's median against that of the last day before it on which the batch was weighed."""
    today = [one.weight_kg for one in weighings if one.day == day]
    last_day = max((one.day for one in weighings if one.day < day), default=None)
    if not today or last_day is None:
        return []
    before = float(np.median([one.weight_kg for one in weighings if one.day == last_day]))
    now, days = float(np.median(today)), (day - last_day).days
    upper = before * (1 + limits.batch_jump_per_day) ** days
    lower = before / (1 + limits.batch_jump_per_day) ** days
    if lower <= now <= upper:
        return []
    start_at, end_at = calendar.bounds(day)
    rows = (
        Evidence(at=calendar.start_of(last_day), value=before, unit="kg", note="median of the day before"),
        Evidence(at=start_at, value=now, lower=lower, upper=upper, unit="kg", note="median of the day"),
    )
    return [
        Anomaly(
            kind="batch_jump",
            severity="critical",
            subject=batch_id,
            batch_id=batch_id,
            start_at=start_at,
            end_at=end_at,
            explanation=(
                f"{_batch(batch_id)} weighed {number(now)} kg in the middle, {counted(days, 'day', 'days')} after "
                f"{number(before)} kg: no animals grow or shrink like that. The scale may have lost its zero, or other animals "
                "were weighed under this batch."
            ),
            evidence=rows,
            evidence_count=len(rows),
        )
    ]


def _row(session: Session, value: float, lower: float, upper: float, note: str = "") -> Evidence:
    return Evidence(
        at=session.finalized_at,
        value=value,
        lower=lower,
        upper=upper,
        unit="kg",
        device_id=session.device_id or None,
        session_id=session.session_id,
        note=note,
    )


def _anomaly(kind: Kind, what: str, batch_id: str, sessions: int, rows: list[Scored]) -> Anomaly:
    evidence = worst_first(rows)
    worst, times = evidence[0], [row.at for _, row in rows]
    is_common = len(rows) * 5 > sessions and len(rows) > 1
    return Anomaly(
        kind=kind,
        severity="critical" if is_common or max(score for score, _ in rows) >= 2 else "warning",
        subject=batch_id,
        batch_id=batch_id,
        start_at=min(times),
        end_at=max(times),
        explanation=(
            f"{_batch(batch_id)} has {counted(len(rows), 'session', 'sessions')} of {sessions} on this day {what}; the worst "
            f"says {number(worst.value)} kg, where {number(worst.lower)} to {number(worst.upper)} kg was expected."
        ),
        evidence=evidence,
        evidence_count=len(rows),
    )


def _batch(batch_id: str) -> str:
    return f"Batch {batch_id}" if batch_id else "The animals without a batch"

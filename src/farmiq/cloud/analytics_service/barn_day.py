"""A barn's day, from rows to KPIs and anomalies. Pure: the same rows give the same answer, in whatever order they are."""

from collections.abc import Sequence

import msgspec
import numpy as np

from farmiq.cloud.analytics_service.anomalies.drift import drifts
from farmiq.cloud.analytics_service.anomalies.dropout import dropouts
from farmiq.cloud.analytics_service.anomalies.flat import flat_lines
from farmiq.cloud.analytics_service.anomalies.found import Anomaly, AnomalyLimits
from farmiq.cloud.analytics_service.anomalies.unusual import unusual_values
from farmiq.cloud.analytics_service.anomalies.weighed import weight_anomalies
from farmiq.cloud.analytics_service.comfort import Limits, comfort_of
from farmiq.cloud.analytics_service.completeness import data_of
from farmiq.cloud.analytics_service.days import Window, window_of
from farmiq.cloud.analytics_service.growth import growth_of
from farmiq.cloud.analytics_service.inputs import BarnDay, Session, Track, Weighing, tracks_of
from farmiq.cloud.analytics_service.kpis import Kpi
from farmiq.cloud.analytics_service.weights import vision_of, weights_of

DAYS_BEFORE = 14
"""With how many days before it a day is compared. What changes on one of them changes this day too."""


class Judgement(msgspec.Struct, frozen=True):
    kpis: list[Kpi]
    anomalies: list[Anomaly]


def judged(rows: BarnDay, limits: AnomalyLimits, comfort: Limits) -> Judgement:
    with np.errstate(
        all="ignore"
    ):  # a sensor may say any number; what comes of it is infinite or none, and never an error
        return _judged(rows, limits, comfort)


def _judged(rows: BarnDay, limits: AnomalyLimits, comfort: Limits) -> Judgement:
    batches = _by_batch(rows.sessions)
    weighings = {batch_id: _weighings(rows, batch_id, sessions) for batch_id, sessions in batches.items()}
    window = window_of(rows.calendar, rows.day, DAYS_BEFORE)
    tracks = tracks_of(window, rows.hours)
    kpis = [
        _barn(rows, window, tracks, comfort),
        *(_batch(rows, name, batches[name], weighings[name], limits) for name in batches),
    ]
    anomalies = _of_series(rows, window, tracks, limits)
    for name, sessions in batches.items():
        anomalies += weight_anomalies(rows.calendar, rows.day, name, sessions, weighings[name], limits)
    return Judgement([kpi for kpi in kpis if _says_something(kpi)], anomalies)


def _barn(rows: BarnDay, window: Window, tracks: Sequence[Track], comfort: Limits) -> Kpi:
    return Kpi(
        scope="barn",
        weights=weights_of(rows.sessions) if rows.sessions else None,
        vision=vision_of(rows.sessions),
        comfort=comfort_of(window, tracks, comfort),
        data=data_of(window, tracks, rows),
    )


def _batch(
    rows: BarnDay, batch_id: str, sessions: Sequence[Session], weighings: Sequence[Weighing], limits: AnomalyLimits
) -> Kpi:
    return Kpi(
        scope="batch",
        batch_id=batch_id,
        weights=weights_of(sessions),
        growth=growth_of(weighings, rows.day, limits.recent_days),
        vision=vision_of(sessions),
    )


def _of_series(rows: BarnDay, window: Window, tracks: Sequence[Track], limits: AnomalyLimits) -> list[Anomaly]:
    return [
        *unusual_values(window, tracks, limits),
        *flat_lines(window, tracks, limits, rows.now),
        *dropouts(window, _staying(rows, tracks), rows.heard, rows.losses, limits, rows.now),
        *drifts(window, tracks, limits),
    ]


def _staying(rows: BarnDay, tracks: Sequence[Track]) -> list[Track]:
    return [track for track in tracks if track.series.device_id not in rows.left]


def _by_batch(sessions: Sequence[Session]) -> dict[str, list[Session]]:
    batches: dict[str, list[Session]] = {}
    for session in sorted(sessions, key=lambda one: (one.batch_id, one.finalized_at, one.session_id)):
        batches.setdefault(session.batch_id, []).append(session)
    return batches


def _weighings(rows: BarnDay, batch_id: str, sessions: Sequence[Session]) -> list[Weighing]:
    today = [Weighing(batch_id, rows.day, one.weight_kg) for one in sessions if one.weight_kg is not None]
    return [one for one in rows.earlier if one.batch_id == batch_id and one.day < rows.day] + today


def _says_something(kpi: Kpi) -> bool:
    return any(part is not None for part in (kpi.weights, kpi.growth, kpi.vision, kpi.comfort, kpi.data))

"""What the day's weights are like, and how far the camera is from the scale."""

from collections.abc import Sequence

import numpy as np

from farmiq.cloud.analytics_service.inputs import Session
from farmiq.cloud.analytics_service.kpis import Vision, Weights

UNIFORM_WITHIN = 0.10


def weights_of(sessions: Sequence[Session]) -> Weights:
    told = np.sort([session.weight_kg for session in sessions if session.weight_kg is not None])
    if not len(told):
        return Weights(sessions=len(sessions), animals_weighed=0)
    mean = float(np.mean(told))
    sd = float(np.std(told, ddof=1)) if len(told) > 1 else None
    p10, p25, median, p75, p90 = (float(value) for value in np.quantile(told, [0.10, 0.25, 0.50, 0.75, 0.90]))
    return Weights(
        sessions=len(sessions),
        animals_weighed=len(told),
        mean_kg=mean,
        sd_kg=sd,
        cv=None if sd is None else sd / mean,
        min_kg=float(told[0]),
        p10_kg=p10,
        p25_kg=p25,
        median_kg=median,
        p75_kg=p75,
        p90_kg=p90,
        max_kg=float(told[-1]),
        uniformity=float(np.mean(np.abs(told - mean) <= UNIFORM_WITHIN * mean)),
    )


def vision_of(sessions: Sequence[Session]) -> Vision | None:
    """Of the sessions that have both. None when there is none."""
    pairs = [
        (session.seen.predicted_kg, session.weight_kg)
        for session in sessions
        if session.seen is not None and session.weight_kg is not None
    ]
    if not pairs:
        return None
    # Sums of floats depend on their order, and rows come in any.
    predicted, weighed = np.array(sorted(pairs)).T
    errors = predicted - weighed
    return Vision(
        pairs=len(pairs),
        mean_error_kg=float(np.mean(errors)),
        mean_absolute_error_kg=float(np.mean(np.abs(errors))),
        mean_absolute_percentage_error=100 * float(np.mean(np.abs(errors) / weighed)),
    )

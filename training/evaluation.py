"""How good the model is on pictures of its own kind and of kinds that it never saw."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from calibration import TOLERANCE, Judged
from dataset import Dataset

EDGES = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)


@dataclass(frozen=True)
class Row:
    """Of the pictures with a confidence in this range: what was promised and what came true."""

    from_confidence: float
    to_confidence: float
    pictures: int
    promised: float
    came_true: float


@dataclass(frozen=True)
class Figures:
    pictures: int
    animals: int
    mae_kg: float
    mape_percent: float
    bias_percent: float
    within_tolerance_percent: float
    mape_percent_when_confident: float | None  # at a confidence of 0.8 and more
    confident_percent: float
    misfires_confident_percent: float | None  # pictures without an animal that got 0.5 and more
    calibration_error: float
    reliability: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def figures(judged: Judged, data: Dataset) -> Figures:
    animal = data.is_animal
    truth, said = data.weights_kg[animal].astype(np.float64), judged.weights_kg[animal]
    error = said / truth - 1
    sure = judged.confidence[animal] >= 0.8
    rows = reliability(judged, data)
    return Figures(
        pictures=len(data),
        animals=int(animal.sum()),
        mae_kg=_rounded(np.abs(said - truth).mean()),
        mape_percent=_rounded(np.abs(error).mean() * 100),
        bias_percent=_rounded(error.mean() * 100),
        within_tolerance_percent=_rounded(_is_true(judged, data)[animal].mean() * 100),
        mape_percent_when_confident=_rounded(np.abs(error[sure]).mean() * 100) if sure.any() else None,
        confident_percent=_rounded(sure.mean() * 100),
        misfires_confident_percent=None if animal.all() else _rounded((judged.confidence[~animal] >= 0.5).mean() * 100),
        calibration_error=_rounded(
            sum(row.pictures * abs(row.promised - row.came_true) for row in rows) / len(data), 4
        ),
        reliability=rows,
    )


def reliability(judged: Judged, data: Dataset) -> tuple[Row, ...]:
    true, place = _is_true(judged, data), np.digitize(judged.confidence, EDGES[1:-1])
    rows = []
    for index, (low, high) in enumerate(pairwise(EDGES)):
        chosen = place == index
        if chosen.any():
            promised, came = judged.confidence[chosen].mean(), true[chosen].mean()
            rows.append(Row(low, high, int(chosen.sum()), _rounded(promised, 3), _rounded(came, 3)))
    return tuple(rows)


def _is_true(judged: Judged, data: Dataset) -> Any:
    return data.is_animal & (np.abs(data.weights_kg / judged.weights_kg - 1) <= TOLERANCE)


def _rounded(value: Any, digits: int = 2) -> float:
    return round(float(value), digits)

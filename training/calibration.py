"""Turns the network's numbers into a confidence that can be taken at its word.

Confidence is the probability that the picture shows one animal on the scale AND its true weight lies within ten percent of
the prediction. Three numbers, found on pictures that the network never learned from, make it true: a stretch for the
spread, and a slope and a shift for the animal."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dataset import Dataset
from weighing import SPREAD_MIN

TOLERANCE = 0.10
_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True)
class Calibration:
    spread_factor: float
    animal_slope: float
    animal_shift: float


@dataclass(frozen=True)
class Judged:
    weights_kg: NDArray[np.float64]
    spread: NDArray[np.float64]  # one deviation, as a share of the weight
    animal: NDArray[np.float64]
    confidence: NDArray[np.float64]


def calibrated(out: NDArray[np.float32], data: Dataset) -> Calibration:
    animal = data.is_animal
    factor = _spread_factor(out[animal], data.weights_kg[animal])
    if animal.all():
        # Nothing to tell apart: the network's own answer stands.
        return Calibration(factor, 1.0, 0.0)
    slope, shift = _slope_and_shift(out[:, 2].astype(np.float64), animal)
    return Calibration(factor, slope, shift)


def judged(out: NDArray[np.float32], calibration: Calibration) -> Judged:
    spread = raw_spread(out) * calibration.spread_factor
    animal = 1 / (1 + np.exp(-(out[:, 2].astype(np.float64) * calibration.animal_slope + calibration.animal_shift)))
    return Judged(np.exp(out[:, 0].astype(np.float64)), spread, animal, animal * within(spread))


def within(spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """How likely a normal error of this spread, in the logarithm, stays within the tolerance on both sides."""
    above, below = math.log1p(TOLERANCE), math.log1p(-TOLERANCE)
    root = math.sqrt(2)
    return np.asarray(0.5 * (_erf(above / (spread * root)) - _erf(below / (spread * root))), np.float64)


def raw_spread(out: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(SPREAD_MIN + np.exp(np.clip(out[:, 1].astype(np.float64), -6.0, 1.0)), np.float64)


def _spread_factor(out: NDArray[np.float32], weights_kg: NDArray[np.float32]) -> float:
    """The one with which the promised share of weights within the tolerance is most likely what was seen."""
    is_within = np.abs(weights_kg / np.exp(out[:, 0]) - 1) <= TOLERANCE
    spread = raw_spread(out)

    def surprise(factor: float) -> float:
        likely = np.clip(within(spread * factor), 1e-6, 1 - 1e-6)
        return float(-np.where(is_within, np.log(likely), np.log1p(-likely)).mean())

    return float(min(np.geomspace(0.4, 4.0, 231), key=surprise))


def _slope_and_shift(score: NDArray[np.float64], animal: NDArray[np.bool_]) -> tuple[float, float]:
    """Logistic regression by Newton's method. The targets keep clear of 0 and 1, so a perfect split stays finite."""
    yes, no = animal.sum(), (~animal).sum()
    target = np.where(animal, (yes + 1) / (yes + 2), 1 / (no + 2))
    inputs = np.stack([score, np.ones_like(score)], axis=1)
    found = np.array([1.0, 0.0])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
        slope = inputs.T @ (likely - target)
        curve = (inputs * (likely * (1 - likely))[:, None]).T @ inputs + 1e-6 * np.eye(2)
        found = found - np.clip(np.linalg.solve(curve, slope), -2, 2)
    return float(found[0]), float(found[1])

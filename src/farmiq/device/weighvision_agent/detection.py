"""Weights in time: has an animal come, what does it weigh, is it gone? Decided from the numbers alone.

A weight is believed when everything that the scale said for a whole window lies within the tolerance and the second half of the
window agrees with the first: an animal that is stepping on, or creeping off, fails one of the two. More than one animal never
stands still, and together they are heavier than `max_kg`.
"""

import math
import statistics
from collections import deque
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

LEFT_SECONDS: Final = 0.5
"""A jump takes the weight off the plate for a moment. One that is gone stays gone."""

SAMPLES_MIN: Final = 3
SAME_ANIMAL_SHARE: Final = 0.1
"""A second weight further away than that from the first is a foot off the plate, or a neighbour's foot on it."""


@dataclass(frozen=True, slots=True)
class Rules:
    detect_kg: float
    stable_window_seconds: float
    stable_tolerance_kg: float
    max_kg: float
    silent_seconds: float
    """Nobody knows what has happened on a plate that was silent for longer."""

    @property
    def empty_kg(self) -> float:
        """Lower than what detects: between the two, neither comes nor goes."""
        return self.detect_kg / 2


@dataclass(frozen=True, slots=True)
class Arrived:
    pass


@dataclass(frozen=True, slots=True)
class Steady:
    weight_kg: float


@dataclass(frozen=True, slots=True)
class Left:
    pass


Change = Arrived | Steady | Left


class _Plate(Enum):
    UNKNOWN = "unknown"
    EMPTY = "empty"
    OCCUPIED = "occupied"


class Detector:
    """`at` is a clock that never goes back. What was on the plate when we began, or when the scale spoke again after a silence,
    may have been weighed before: it has to leave first."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._plate = _Plate.UNKNOWN
        self._window: deque[tuple[float, float]] = deque()
        self._light_since: float | None = None
        self._last_at = -math.inf
        self._first_kg: float | None = None
        self._told_kg: float | None = None

    @property
    def is_occupied(self) -> bool:
        return self._plate is _Plate.OCCUPIED

    def look(self, at: float, weight_kg: float, *, is_moving: bool = False) -> list[Change]:
        """One word of the scale. `is_moving` is what the scale itself says of its plate."""
        if at <= self._last_at or not math.isfinite(weight_kg):
            return []
        silent_seconds, self._last_at = at - self._last_at, at
        if self.is_occupied and silent_seconds > self._rules.silent_seconds:
            self._plate = _Plate.UNKNOWN
            return [Left(), *self._watch_empty(at, weight_kg)]
        if self._plate is not _Plate.OCCUPIED:
            return self._watch_empty(at, weight_kg)
        if self._is_gone(at, weight_kg):
            self._plate = _Plate.EMPTY
            return [Left()]
        return self._watch_animal(at, weight_kg, is_moving=is_moving)

    def _watch_empty(self, at: float, weight_kg: float) -> list[Change]:
        if weight_kg < self._rules.empty_kg:
            self._plate = _Plate.EMPTY
        if self._plate is _Plate.UNKNOWN or weight_kg < self._rules.detect_kg:
            return []
        self._plate = _Plate.OCCUPIED
        self._window = deque([(at, weight_kg)])
        self._light_since = self._first_kg = self._told_kg = None
        return [Arrived()]

    def _is_gone(self, at: float, weight_kg: float) -> bool:
        if weight_kg >= self._rules.empty_kg:
            self._light_since = None
            return False
        if self._light_since is None:
            self._light_since = at
        return at - self._light_since >= LEFT_SECONDS

    def _watch_animal(self, at: float, weight_kg: float, *, is_moving: bool) -> list[Change]:
        if is_moving or weight_kg < self._rules.detect_kg:
            self._window.clear()
            return []
        self._window.append((at, weight_kg))
        window_seconds = self._rules.stable_window_seconds
        # One sample from before the window stays: only with it the samples span the whole of it.
        while len(self._window) > 1 and at - self._window[1][0] >= window_seconds:
            self._window.popleft()
        if at - self._window[0][0] < window_seconds or not self._is_steady():
            return []
        return self._tell(statistics.median(kg for _, kg in self._window))

    def _is_steady(self) -> bool:
        weights = [kg for _, kg in self._window]
        gap_seconds_max = max(later - earlier for (earlier, _), (later, _) in pairwise(self._window))
        if len(weights) < SAMPLES_MIN or gap_seconds_max > self._rules.stable_window_seconds / 2:
            return False
        if max(weights) - min(weights) > self._rules.stable_tolerance_kg or max(weights) > self._rules.max_kg:
            return False
        half = len(weights) // 2
        drift_kg = abs(statistics.fmean(weights[-half:]) - statistics.fmean(weights[:half]))
        return drift_kg <= self._rules.stable_tolerance_kg / 4

    def _tell(self, weight_kg: float) -> list[Change]:
        if self._first_kg is not None and abs(weight_kg - self._first_kg) > SAME_ANIMAL_SHARE * self._first_kg:
            return []
        if self._told_kg is not None and abs(weight_kg - self._told_kg) <= self._rules.stable_tolerance_kg:
            return []
        if self._first_kg is None:
            self._first_kg = weight_kg
        self._told_kg = weight_kg
        return [Steady(round(weight_kg, 3))]

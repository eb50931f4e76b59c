"""How long to wait before trying again."""

import random


class Backoff:
    """Doubles from `base_seconds` to `cap_seconds`, with full jitter on top so that a fleet does not return in step."""

    def __init__(self, base_seconds: float, cap_seconds: float, rng: random.Random | None = None) -> None:
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._failures = 0

    @property
    def failures(self) -> int:
        return self._failures

    def next_seconds(self) -> float:
        ceiling = min(self._base_seconds * 2.0 ** min(self._failures, 62), self._cap_seconds)
        self._failures += 1
        return ceiling * self._rng.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._failures = 0

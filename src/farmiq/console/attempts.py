"""Guessing passwords takes time: after a few failures a name, and an address, have to wait longer and longer."""

from typing import Final

FREE_FAILURES: Final = 5
WAIT_SECONDS_MAX: Final = 300.0
NAMES_MAX: Final = 10_000


class LoginAttempts:
    """Forgotten with the process, which takes longer to restart than the first waits last."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def wait_seconds(self, who: str, now: float) -> float:
        """How long `who` has to wait before the next attempt is looked at. 0: it may be made."""
        failures, last = self._failures.get(who, (0, now))
        if failures < FREE_FAILURES:
            return 0.0
        wait = min(WAIT_SECONDS_MAX, 2.0 ** (failures - FREE_FAILURES))
        return max(0.0, last + wait - now)

    def failed(self, who: str, now: float) -> None:
        if len(self._failures) >= NAMES_MAX and who not in self._failures:
            self._failures.pop(next(iter(self._failures)))
        failures, _ = self._failures.pop(who, (0, now))
        self._failures[who] = (failures + 1, now)

    def succeeded(self, who: str) -> None:
        self._failures.pop(who, None)

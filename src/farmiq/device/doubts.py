"""What contradicts a belief, and for how long it has done so. Not how new it claims to be: that clock may have been wrong."""

from collections.abc import Callable, Hashable
from typing import Final

PERSISTS_SECONDS: Final = 60.0
"""An acknowledgement that was late on its way is not followed by others like it for so long."""


class Doubts:
    """On a monotonic clock. A doubt ends when something speaks against it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[Hashable, float] = {}

    def persists(self, subject: Hashable) -> bool:
        """It is said once more, and has been said for long enough."""
        now = self._monotonic()
        return now - self._since.setdefault(subject, now) >= PERSISTS_SECONDS

    def end(self, *subjects: Hashable) -> None:
        for subject in subjects:
            self._since.pop(subject, None)

    def end_all(self) -> None:
        self._since.clear()

"""Whose fault is it that a picture was not taken? The receiver's, as long as it takes no other one either."""

from typing import Final
from uuid import UUID

SUSPECTS_MAX: Final = 10_000


class Blame:
    """Forgotten at a restart: a picture is then charged later, never sooner."""

    def __init__(self) -> None:
        self._passed = 0
        self._suspects: dict[UUID, int] = {}

    def went_through(self, picture_id: UUID) -> None:
        self._passed += 1
        self._suspects.pop(picture_id, None)

    def is_of_picture(self, picture_id: UUID) -> bool:
        """It was not taken, for a reason that says nothing about it. True when others were, since the last time."""
        before = self._suspects.pop(picture_id, self._passed)
        self._suspects[picture_id] = self._passed
        if len(self._suspects) > SUSPECTS_MAX:
            del self._suspects[next(iter(self._suspects))]
        return before < self._passed

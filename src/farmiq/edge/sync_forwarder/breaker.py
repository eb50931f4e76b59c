"""How long a tenant pauses when the cloud cannot be reached."""

from typing import Final

from msgspec import Struct

RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""What the cloud may ask for. More is taken for a mistake: no answer should silence a farm for a day."""


class Breaker(Struct, frozen=True):
    """Closed: send. Open: `is_paused`. Half open: the pause is over, and one replica may send one batch to find out."""

    consecutive_failures: int = 0
    is_paused: bool = False

    @property
    def is_closed(self) -> bool:
        return self.consecutive_failures == 0 and not self.is_paused


def pause_seconds(
    consecutive_failures: int, retry_after_seconds: float | None, cap_seconds: float, jitter: float
) -> float:
    """Doubles with each failure up to the cap. `jitter` is 0 to 1, so that a fleet does not come back in step."""
    grown = min(2.0 ** min(consecutive_failures, 62), cap_seconds)
    asked = min(retry_after_seconds or 0.0, RETRY_AFTER_SECONDS_MAX)
    return max(grown, asked) + jitter

import asyncio
from typing import Final

from farmiq.kit.clock import Clock

AT_ONCE: Final = 100


class Pace:
    """Not faster than so many a second, on average from the first on. None: as fast as it goes."""

    def __init__(self, per_second: float | None, clock: Clock) -> None:
        # A tenth of a second's worth: what comes at once is what the service at the other end feels.
        self.at_once = AT_ONCE if per_second is None else max(1, min(AT_ONCE, int(per_second / 10)))
        self._per_second = per_second
        self._clock = clock
        self._free_at = clock.monotonic()

    async def wait(self, messages: int) -> None:
        if self._per_second is None:
            return
        now = self._clock.monotonic()
        start = max(self._free_at, now)
        self._free_at = start + messages / self._per_second
        await asyncio.sleep(start - now)

"""A machine: its clocks, and whether they tell the truth."""

from datetime import UTC, datetime, timedelta

from farmiq.kit.clock import Clock
from simulation.virtual_loop import VirtualLoop

START = datetime(2025, 1, 1, 10, 0, tzinfo=UTC)


class Machine(Clock):
    """The wall clock jumps; the monotonic clock is that of the world, and begins anew with every boot."""

    def __init__(self, name: str, loop: VirtualLoop) -> None:
        self.name = name
        self.ahead_seconds = 0.0
        self._loop = loop
        self._booted_at = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self._loop.time() + self.ahead_seconds)

    def monotonic(self) -> float:
        return self._loop.time() - self._booted_at

    def wall_us(self) -> int:
        return round(self.now().timestamp() * 1_000_000)

    def boot(self) -> None:
        self._booted_at = self._loop.time()

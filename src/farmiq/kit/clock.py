"""Time is passed in, never looked up: tests move it, and a node without a battery-backed clock can be simulated."""

import time
from datetime import UTC, datetime


class Clock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

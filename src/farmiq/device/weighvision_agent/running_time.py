"""How long the station has run, on a clock that nobody can set.

What waits grows old by it and by nothing else: a Pi without a battery boots in another year, and jumps to this one when it finds
a time server. The time between two starts counts as none, and after a kill so do the seconds since it was last kept: nothing is
ever thought older than it is.
"""

import sqlite3

from farmiq.device.weighvision_agent import event_store
from farmiq.kit.clock import Clock

RAN_US = "ran_us"


class RunningTime:
    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._before_us = int(event_store.fact(connection, RAN_US) or 0)
        self._started = clock.monotonic()

    def now_us(self) -> int:
        return self._before_us + int((self._clock.monotonic() - self._started) * 1_000_000)

    def keep(self) -> None:
        event_store.set_fact(self._connection, RAN_US, str(self.now_us()))

"""When a value was read: on the wall, since the start of the machine, and how far the wall clock can be trusted."""

from collections.abc import Callable
from typing import NamedTuple

from farmiq.contracts.timestamps import to_us
from farmiq.device.boot import boottime_us
from farmiq.kit.clock import Clock


class Stamp(NamedTuple):
    wall_us: int
    monotonic_us: int
    quality: int


class Stamps:
    def __init__(self, clock: Clock, quality: Callable[[], int], monotonic_us: Callable[[], int] = boottime_us) -> None:
        self._clock = clock
        self._quality = quality
        self._monotonic_us = monotonic_us

    def now(self) -> Stamp:
        return Stamp(to_us(self._clock.now()), self._monotonic_us(), self._quality())

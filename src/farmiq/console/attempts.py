"""Guessing passwords takes time: after a few failures an address has to wait longer and longer, first for the name that it
tried, later for every name.

A name alone never waits: whoever knows it could keep its owner out for ever. Failures are forgotten by halves, so that the typing
errors of a whole office behind one address, or of months, add up to nothing. Whoever is logged in already is not asked. Pure but
for what it remembers.
"""

from collections.abc import Hashable
from typing import Final

from msgspec import Struct

HALF_LIFE_SECONDS: Final = 600.0
REMEMBERED_MAX: Final = 10_000


class Patience(Struct, frozen=True):
    """How many failures are free, and how long a wait may become."""

    free_failures: int
    wait_seconds_max: float


OF_NAME: Final = Patience(5, 300.0)
OF_ADDRESS: Final = Patience(30, 30.0)


class _Failures(Struct, frozen=True):
    count: float
    last_at: float


class LoginAttempts:
    """Forgotten with the process, which takes longer to restart than the first waits last."""

    def __init__(self) -> None:
        self._failures: dict[Hashable, _Failures] = {}

    def wait_seconds(self, name: str, address: str, now: float) -> float:
        """How long this address has to wait before its next attempt for this name is looked at. 0: it may be made."""
        return max(self._wait((name, address), OF_NAME, now), self._wait(address, OF_ADDRESS, now))

    def begun(self, name: str, address: str, now: float) -> None:
        """Counted as a failure until it has succeeded: many at once are not looked at for the price of one."""
        for who in ((name, address), address):
            self._add(who, 1.0, now)

    def succeeded(self, name: str, address: str, now: float) -> None:
        """The name's failures were typing errors. Those of other names stay: an account of one's own is no way round them."""
        own = self._count((name, address), now)
        self._failures.pop((name, address), None)
        self._add(address, -own, now)

    def _wait(self, who: Hashable, patience: Patience, now: float) -> float:
        known = self._failures.get(who)
        if known is None or known.count < patience.free_failures:
            return 0.0
        wait = min(patience.wait_seconds_max, float(2.0 ** min(60.0, known.count - patience.free_failures)))
        return max(0.0, known.last_at + wait - now)

    def _count(self, who: Hashable, now: float) -> float:
        known = self._failures.get(who)
        return 0.0 if known is None else known.count * 0.5 ** ((now - known.last_at) / HALF_LIFE_SECONDS)

    def _add(self, who: Hashable, failures: float, now: float) -> None:
        count = max(0.0, self._count(who, now) + failures)
        self._failures.pop(who, None)
        if len(self._failures) >= REMEMBERED_MAX:
            self._failures.pop(next(iter(self._failures)))
        self._failures[who] = _Failures(count, now)

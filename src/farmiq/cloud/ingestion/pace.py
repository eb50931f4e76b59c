"""How often each edge may knock. Pure but for the clock that it is given."""

from math import ceil
from typing import Final

from farmiq.kit.clock import Clock

BURST_SECONDS: Final = 2.0
ROUNDING_SECONDS: Final = 1e-6
"""Fractions of a second that are added up many times. Without it the last of a burst would wait."""
EDGES_MAX: Final = 10_000


class Pace:
    """A bucket of tokens for each edge: filled with `per_second`, holding two seconds' worth, one taken by each batch."""

    def __init__(self, per_second: float, clock: Clock, edges_max: int = EDGES_MAX) -> None:
        self._per_second = per_second
        self._clock = clock
        self._edges_max = edges_max
        self._full_at: dict[str, float] = {}

    def wait_seconds(self, edge_cluster_id: str) -> int:
        """0: go on. Else after how many whole seconds to come again; that try cost the edge nothing."""
        now = self._clock.monotonic()
        full_at = max(self._full_at.get(edge_cluster_id, now), now) + 1 / self._per_second
        if full_at - now > BURST_SECONDS + ROUNDING_SECONDS:
            return ceil(full_at - now - BURST_SECONDS)
        self._remember(edge_cluster_id, full_at, now)
        return 0

    def _remember(self, edge_cluster_id: str, full_at: float, now: float) -> None:
        if len(self._full_at) >= self._edges_max:
            # A bucket that is full again says no more than one that is not there.
            self._full_at = {name: at for name, at in self._full_at.items() if at > now}
        self._full_at[edge_cluster_id] = full_at

"""The state of the farm, asked once for everybody who looks, with a short memory for rates and trends."""

import asyncio
from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.kit.clock import Clock
from farmiq.kit.lifecycle import Lifetime

MEMORY_BEATS: Final = 600
QUIET_FACTOR: Final = 5
"""Nobody looks: only each so many intervals."""

WATCHED: Final[Mapping[str, str]] = {
    "edge-ingress-gateway": "/api/v1/ingress/stats",
    "edge-telemetry-timeseries": "/api/v1/telemetry/stats",
    "edge-sync-forwarder": "/api/v1/sync/state",
    "edge-weighvision-session": "/api/health",
    "edge-media-store": "/api/health",
    "edge-vision-inference": "/api/health",
    "cloud-ingestion": "/api/v1/ingestion/stats",
    "cloud-telemetry-service": "/api/v1/telemetry/stats",
    "cloud-analytics-service": "/api/health",
    "cloud-media-store": "/api/health",
}
"""What is asked of each service."""


class Beat(Struct, frozen=True):
    """`told` is what the service said last; `away_since` is None while it answers."""

    told: Mapping[str, Any]
    told_at: datetime | None
    away_since: datetime | None
    reason: str


class Pulse:
    def __init__(self, neighbours: Neighbours, clock: Clock) -> None:
        self._neighbours = neighbours
        self._clock = clock
        self._beats: dict[str, Beat] = {}
        self._memory: dict[str, deque[tuple[float, Mapping[str, Any]]]] = {}
        self._number = 0
        self._next: asyncio.Event = asyncio.Event()
        self.watchers = 0

    async def keep(self, life: Lifetime, interval_seconds: float) -> None:
        skipped, is_running = 0, True
        while is_running:
            if self.watchers or skipped >= QUIET_FACTOR or self._number == 0:
                skipped = 0
                await self.beat()
            skipped += 1
            is_running = await life.pause(interval_seconds)

    async def beat(self) -> None:
        names = [name for name in WATCHED if self._neighbours.knows(name)]
        await asyncio.gather(*(self._ask(name) for name in names))
        self._number += 1
        self._next.set()
        self._next = asyncio.Event()

    async def after(self, number: int) -> int:
        """The number of a beat that is newer than `number`, as soon as there is one."""
        while self._number <= number:
            await self._next.wait()
        return self._number

    @property
    def names(self) -> list[str]:
        return list(self._beats)

    def of(self, service: str) -> Beat | None:
        """None: this console is not told of that service, or has not asked it yet."""
        return self._beats.get(service)

    def history(self, service: str, field: str) -> list[tuple[float, float]]:
        """Monotonic seconds with what a number was then."""
        memory = self._memory.get(service, ())
        return [(at, float(told[field])) for at, told in memory if isinstance(told.get(field), int | float)]

    def rate(self, service: str, field: str, seconds: float = 10.0) -> float | None:
        """A second, over the last seconds. None when it is not known: too young, away, or counting began anew."""
        found = [entry for entry in self.history(service, field) if entry[0] >= self._clock.monotonic() - seconds]
        if len(found) < 2 or found[-1][0] == found[0][0] or found[-1][1] < found[0][1]:
            return None
        return (found[-1][1] - found[0][1]) / (found[-1][0] - found[0][0])

    async def _ask(self, service: str) -> None:
        before = self._beats.get(service)
        try:
            told = await self._neighbours.get(service, WATCHED[service], dict[str, Any])
        except (Away, Refused) as error:
            since = (before and before.away_since) or self._clock.now()
            reason = error.reason if isinstance(error, Away) else str(error)
            known = (before.told, before.told_at) if before else ({}, None)
            self._beats[service] = Beat(*known, since, reason)
            return
        self._beats[service] = Beat(told, self._clock.now(), None, "")
        memory = self._memory.setdefault(service, deque(maxlen=MEMORY_BEATS))
        memory.append((self._clock.monotonic(), told))

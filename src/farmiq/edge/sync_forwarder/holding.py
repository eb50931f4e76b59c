"""Claimed rows, held until each of them is settled or given back."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from farmiq.edge.sync_forwarder.counters import Counters
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.fencing import still_ours
from farmiq.outbox.renew import renew
from farmiq.outbox.suspects import mark_alone

RENEW_SHARE: Final = 1 / 3
"""Of the lease. The document asks for a renewal at 60 %; at a third, one that fails can be tried again before the end."""

SHOWN_IDS: Final = 10

log = get_logger(__name__)


class Holding:
    """Whoever settles takes `lock` first: a renewal in the same moment would miss the settled rows and call them lost."""

    def __init__(self, pool: Pool, events: Sequence[ClaimedEvent], lease_seconds: float, counters: Counters) -> None:
        self.lock = asyncio.Lock()
        self._pool = pool
        self._lease_seconds = lease_seconds
        self._counters = counters
        self._held = {event.id: event for event in events}

    def __contains__(self, event_id: UUID) -> bool:
        return event_id in self._held

    @property
    def events(self) -> list[ClaimedEvent]:
        return list(self._held.values())

    def drop(self, event_ids: Iterable[UUID]) -> None:
        """These are settled or somebody else's."""
        for event_id in event_ids:
            self._held.pop(event_id, None)

    async def mark_suspect(self) -> None:
        """Before anything is done with it. A suspect is alone in its batch, and whoever finds its row after us has to know."""
        for event in self.events:
            if event.is_suspect:
                async with self.lock, self._pool.acquire() as connection:
                    if not await mark_alone(connection, event):
                        self.lost([event.id])

    async def keep(self) -> None:
        """Until cancelled. A database that is away is no reason to stop sending: the rows are fenced."""
        while True:
            await asyncio.sleep(RENEW_SHARE * self._lease_seconds)
            try:
                await self.renew()
            except RETRY as error:
                log.warning("leases_not_renewed", events=len(self._held), reason=str(error) or type(error).__name__)

    async def renew(self) -> None:
        async with self.lock:
            async with self._pool.acquire() as connection:
                renewed = await renew(connection, self.events, lease_seconds=self._lease_seconds)
            self.lost([event_id for event_id in self._held if event_id not in renewed])

    async def check(self) -> None:
        """Which of them are still ours, before something is done with them."""
        async with self.lock:
            async with self._pool.acquire() as connection:
                ours = await still_ours(connection, self.events)
            self.lost([event_id for event_id in self._held if event_id not in ours])

    def lost(self, event_ids: Sequence[UUID]) -> None:
        """Somebody took these back. What the cloud says about them from now on is not ours to write down."""
        self.drop(event_ids)
        if event_ids:
            self._counters.leases_lost.inc(len(event_ids))
            shown = [str(event_id) for event_id in event_ids[:SHOWN_IDS]]
            log.warning("leases_lost", events=len(event_ids), event_ids=shown)

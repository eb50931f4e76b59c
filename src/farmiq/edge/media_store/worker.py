"""Looks for the pictures that were announced, and for those that nobody announced. Any number of replicas side by side."""

import asyncio
from typing import Final

from farmiq.edge.media_store import losses, store
from farmiq.edge.media_store.inspection import Inspector
from farmiq.kit.errors import Transient
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY
from farmiq.kit.retry import Backoff
from farmiq.outbox.wakeup import Wakeup

LOOK_SECONDS: Final = 0.5
"""When nothing wakes us: for uploads that nobody announced, and those that are looked for again. Looking costs one index page."""
QUIET_SECONDS: Final = 0.05
"""Every event of the edge wakes us, not only announcements: so often at most."""
LEASE_SECONDS: Final = 30.0
"""How long a picture waits when whoever was looking at it died. Looking twice at one does no harm."""
COUNT_SECONDS: Final = 15.0
PAUSE_SECONDS_MAX: Final = 10.0

# What says nothing about a picture: a neighbour is away or busy.
AWAY: Final[tuple[type[BaseException], ...]] = (Transient, *RETRY)

log = get_logger(__name__)


async def look_for_pictures(life: Lifetime, inspector: Inspector, wakeup: Wakeup, at_once: int) -> None:
    """Until the service stops. Cut anywhere, it has only delayed what it held by the lease."""
    backoff = Backoff(base_seconds=LOOK_SECONDS, cap_seconds=PAUSE_SECONDS_MAX)
    while not life.stopping.is_set():
        try:
            found = await look(inspector, at_once)
        except AWAY as error:
            log.warning("pictures_not_looked_for", reason=str(error) or type(error).__name__)
            await life.pause(backoff.next_seconds())
            continue
        backoff.reset()
        if not found:
            await life.pause(QUIET_SECONDS)
            await wakeup.wait(life, LOOK_SECONDS)


async def look(inspector: Inspector, at_once: int) -> int:
    """Look at up to `at_once` pictures that are due. Answers how many there were."""
    async with inspector.pool.acquire() as connection:
        due = await store.claim_due(connection, at_once, LEASE_SECONDS)
    looks = await asyncio.gather(*(inspector.inspect(picture) for picture in due), return_exceptions=True)
    for picture, failure in zip(due, looks, strict=True):
        if isinstance(failure, AWAY):
            raise failure
        if isinstance(failure, Exception):
            # Our own mistake about this picture. It is tried again when its lease is over, and costs no other picture its turn.
            inspector.counters.failed.inc()
            log.error("picture_not_inspected", media_id=str(picture.media_id), exc_info=failure)
        elif isinstance(failure, BaseException):
            raise failure
    return len(due)


async def declare_losses(life: Lifetime, inspector: Inspector) -> None:
    """Until the service stops. Several replicas share them; killed anywhere, the next round goes on."""
    is_running = True
    while is_running:
        try:
            while await losses.declare_due(inspector.pool, inspector.clock.now()):
                inspector.announcer.announce()
        except AWAY as error:
            log.warning("losses_not_declared", reason=str(error) or type(error).__name__)
        is_running = await life.pause(COUNT_SECONDS)


async def count_pictures(life: Lifetime, inspector: Inspector) -> None:
    """How many are in which state, for whoever reads the metrics."""
    is_running = True
    while is_running:
        try:
            async with inspector.pool.acquire() as connection:
                inspector.counters.saw(await store.counts(connection))
        except RETRY as error:
            log.warning("pictures_not_counted", reason=str(error) or type(error).__name__)
        is_running = await life.pause(COUNT_SECONDS)

"""Figures that are looked up now and then: a scrape must not read a table, and a long table must not be read all the time."""

from collections.abc import Awaitable, Callable
from typing import Final

from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Connection, Pool

SAMPLE_SECONDS: Final = 15.0
REST_FACTOR: Final = 50
"""A sample rests fifty times as long as it took: measuring may cost the database 2 % of its time, not more."""

log = get_logger(__name__)


async def keep_sampling(life: Lifetime, pool: Pool, sample: Callable[[Connection], Awaitable[None]]) -> None:
    """Until cancelled. A database that is away leaves what was seen last."""
    is_running = True
    while is_running:
        started = life.clock.monotonic()
        try:
            async with pool.acquire() as connection:
                await sample(connection)
        except RETRY as error:
            log.warning("figures_not_sampled", reason=str(error) or type(error).__name__)
        took_seconds = life.clock.monotonic() - started
        is_running = await life.pause(max(SAMPLE_SECONDS, REST_FACTOR * took_seconds))

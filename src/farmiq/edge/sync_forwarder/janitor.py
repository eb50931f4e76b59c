"""Old acknowledged rows leave the table, a page at a time."""

from typing import Final

from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY, Pool
from farmiq.outbox.retire import START, retire

PASS_SECONDS: Final = 6 * 3600.0
PAGE_PAUSE_SECONDS: Final = 0.1

log = get_logger(__name__)


async def tidy(life: Lifetime, pool: Pool, retention_days: int) -> None:
    is_running = True
    while is_running:
        try:
            removed = await _one_pass(life, pool, retention_days)
            log.info("outbox_tidied", removed=removed, retention_days=retention_days)
        except RETRY as error:
            log.warning("outbox_not_tidied", reason=str(error) or type(error).__name__)
        is_running = await life.pause(PASS_SECONDS)


async def _one_pass(life: Lifetime, pool: Pool, retention_days: int) -> int:
    removed, after = 0, START
    while True:
        async with pool.acquire() as connection:
            page = await retire(connection, after, retention_days=retention_days)
        removed += page.removed
        if page.last_id is None or not await life.pause(PAGE_PAUSE_SECONDS):
            return removed
        after = page.last_id

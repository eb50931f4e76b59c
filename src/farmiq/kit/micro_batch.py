"""How messages go into the database: many in one transaction, again while it is away, and alone when one spoils the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import asyncpg

from farmiq.kit.errors import Rejected
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import RETRY
from farmiq.kit.retry import Backoff

T = TypeVar("T")
R = TypeVar("R")

log = get_logger(__name__)

# What only a message's own content can cause. COPY raises Python's own errors for a number that does not fit its column or
# half a character, where a plain INSERT raises PostgreSQL's. Everything else PostgreSQL says (a table is missing, the database
# is read only, a right was taken away) is about us: it ends the service with nothing acknowledged, and no good message is set
# aside for it.
UNFIT: tuple[type[Exception], ...] = (
    Rejected,
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
    ArithmeticError,
    ValueError,
)


async def until_stored(work: Callable[[], Awaitable[R]]) -> R:
    """Until it is committed, or cancelled. `work` must be idempotent: a commit whose answer was lost is done again."""
    backoff = Backoff(base_seconds=0.05, cap_seconds=2.0)
    while True:
        try:
            return await work()
        except RETRY as error:
            if backoff.failures == 0:
                log.warning("database_waited_for", reason=str(error) or type(error).__name__)
            await asyncio.sleep(backoff.next_seconds())


async def together_or_alone(
    items: Sequence[T],
    commit: Callable[[Sequence[T]], Awaitable[R]],
    set_aside: Callable[[T, Exception], Awaitable[R]],
) -> list[R]:
    """One transaction for all. If something in it does not go into the database, one for each half, and so on.

    What spoils it ends up alone and is set aside; its neighbours cost a few transactions, and not one each.
    """
    try:
        return [await commit(items)]
    except RETRY:
        raise
    except UNFIT as error:
        if len(items) == 1:
            return [await set_aside(items[0], error)]
        log.warning("micro_batch_split", messages=len(items), reason=str(error))
    middle = len(items) // 2
    first = await together_or_alone(items[:middle], commit, set_aside)
    return [*first, *await together_or_alone(items[middle:], commit, set_aside)]

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from farmiq.kit.postgres import AWAY, Connection, DatabaseAway, Pool


@asynccontextmanager
async def asking(pool: Pool) -> AsyncIterator[Connection]:
    """A connection for a question. A database that is away is the caller's to wait for, not a failure of ours."""
    try:
        async with pool.acquire() as connection:
            yield connection
    except AWAY as error:
        raise DatabaseAway("PostgreSQL does not answer: try again in a moment") from error

"""Requests read as a role that may only read, and that sees only the tenants which the request named: row-level security.

Every query says `WHERE tenant_id = $1`. Behind that PostgreSQL compares each row with the setting `farmiq.tenants`
(row-level security), which holds for one transaction: without it there are no rows, so a forgotten clause shows an empty answer.

The role is the reader's of `farmiq.kit.database_roles`: it may read the tables that have a policy for reading, without hashes of
passwords and tokens. Where it is missing, queries work without it.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import AWAY, Connection, DatabaseAway, Pool

ALL_TENANTS: Final = "*"
"""For routes of administrators that show every tenant."""
_TENANT: Final = re.compile(r"[A-Za-z0-9._-]+")

log = get_logger(__name__)


@asynccontextmanager
async def read_as(pool: Pool, *tenant_ids: str) -> AsyncIterator[Connection]:
    """A connection that reads these tenants, all queries as of one moment. The role and the tenants end with the transaction: a
    connection of the pool is never reset."""
    if tenant_ids != (ALL_TENANTS,) and not all(map(_TENANT.fullmatch, tenant_ids)):
        raise ValueError("either ids of tenants, or ALL_TENANTS alone")
    try:
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            if not await connection.fetchval("SELECT read_as($1)", ",".join(tenant_ids)):
                _warn_once()
            yield connection
    except AWAY as error:
        raise DatabaseAway("PostgreSQL does not answer: try again in a moment") from error


@cache
def _warn_once() -> None:
    log.warning("row_security_skipped", fix="farmiq migrate says which role is missing")

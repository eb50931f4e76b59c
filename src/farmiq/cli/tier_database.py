"""One tier's database for the time of a command, refused when it is the other tier's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from farmiq.cli.errors import BadSetting, CommandFailed
from farmiq.contracts.services import Tier
from farmiq.kit.logging import mask
from farmiq.kit.postgres import Connection, open_pool, require_schema

PATIENCE_SECONDS = 5.0


@asynccontextmanager
async def open_session(url: str, application: str, *, needs_table: str) -> AsyncIterator[Connection]:
    try:
        pool = await open_pool(url, service=application, size_max=1, patience_seconds=PATIENCE_SECONDS)
    except (asyncpg.PostgresError, ValueError) as error:
        # The text of a ValueError quotes the part of the address that could not be read, which may be the password.
        why = mask(str(error)) if isinstance(error, asyncpg.PostgresError) else "It cannot be read as an address."
        raise BadSetting(
            "PostgreSQL does not take this DATABASE_URL",
            why=why,
            fix="DATABASE_URL=postgresql://user:password@host:5432/database",
        ) from None
    async with pool:
        await require_schema(pool)
        async with pool.acquire() as connection:
            if await connection.fetchval("SELECT to_regclass($1) IS NULL", needs_table):
                raise CommandFailed(
                    f"this database has no {needs_table.replace('_', ' ')} yet",
                    why="Its schema is older than this version.",
                    fix=f"farmiq migrate {await tier_of(connection)}",
                )
            yield connection


async def tier_of(connection: Connection) -> str:
    revision = await connection.fetchval("SELECT min(version_num) FROM alembic_version")
    return str(revision).partition("_")[0]


async def refuse_other_tier(connection: Connection, tier: Tier, *, what: str, fix: str) -> None:
    found = await tier_of(connection)
    if found != tier:
        raise BadSetting(
            f"this is a database of the {found}, and {what} the {tier}",
            why="DATABASE_URL names the other tier's database.",
            fix=fix,
        )

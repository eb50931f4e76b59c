"""One moment of a database: what it held then, for the manifest and for the dump alike."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import asyncpg
import msgspec

from farmiq.backup.errors import OtherTier
from farmiq.backup.manifest import DatabaseFacts, ExpectedLine
from farmiq.backup.tiers import Place, epoch_of, expected_pictures
from farmiq.kit.logging import mask
from farmiq.kit.postgres import AWAY, Connection, DatabaseAway, prepare
from farmiq.timeseries.fingerprint import coverage_sha256

APPLICATION: Final = "farmiq-backup"

_TABLES: Final = """
SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' ORDER BY c.relname
"""


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator[Connection]:
    """Without a limit for a statement: counting and dropping take as long as there is data."""
    try:
        connection = await asyncpg.connect(database_url, timeout=10, server_settings={"application_name": APPLICATION})
    except AWAY as error:
        raise DatabaseAway(f"PostgreSQL does not answer at {mask(database_url)}: {error}") from error
    try:
        await prepare(connection)
        yield connection
    finally:
        await connection.close(timeout=5)


@asynccontextmanager
async def frozen(place: Place) -> AsyncIterator[tuple[Connection, str]]:
    """A connection that sees one moment for as long as it is open, and the name under which pg_dump sees the same."""
    async with connected(place.database_url) as connection:
        await refuse_other_tier(connection, place)
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection, await connection.fetchval("SELECT pg_export_snapshot()")


async def facts(connection: Connection, place: Place) -> DatabaseFacts:
    taken_at: datetime = await connection.fetchval("SELECT transaction_timestamp()")
    return DatabaseFacts(
        taken_at=taken_at,
        revision=await connection.fetchval("SELECT max(version_num) FROM alembic_version"),
        server_version=await connection.fetchval("SHOW server_version"),
        epoch=await epoch_of(connection, place.tier),
        rows=await count_rows(connection),
        coverage_sha256=await coverage_sha256(connection),
    )


async def server_major(connection: Connection) -> int:
    return int(await connection.fetchval("SHOW server_version_num")) // 10_000


async def count_rows(connection: Connection) -> dict[str, int]:
    """Of every table, and of every partition by itself."""
    names = [row["relname"] for row in await connection.fetch(_TABLES)]
    return {name: int(await connection.fetchval(f"SELECT count(*) FROM {_quoted(name)}")) for name in names}  # noqa: S608 - a name from the catalogue


async def has_rows_since(connection: Connection, xid: int) -> bool:
    """Whether a row was added or changed by a transaction that began after that one."""
    for row in await connection.fetch(_TABLES):
        changed = f"SELECT EXISTS (SELECT FROM {_quoted(row['relname'])} WHERE age(xmin) < age($1::xid))"  # noqa: S608 - likewise
        if await connection.fetchval(changed, xid):
            return True
    return False


async def write_expected(connection: Connection, place: Place, path: Path) -> None:
    """The pictures that must be in the store, one a line with its checksum, for comparisons after the snapshot is let go."""
    with path.open("wb") as file:
        async for expected in expected_pictures(connection, place):
            if expected.must_exist:
                file.write(msgspec.json.encode(ExpectedLine(expected.key, expected.sha256)) + b"\n")


async def refuse_other_tier(connection: Connection, place: Place) -> None:
    found = str(await connection.fetchval("SELECT min(version_num) FROM alembic_version")).partition("_")[0]
    if found != place.tier:
        raise OtherTier(
            f"this is a database of the {found}, and you asked for the {place.tier}", fix="correct DATABASE_URL"
        )


def _quoted(name: str) -> str:
    return 'public."' + name.replace('"', '""') + '"'

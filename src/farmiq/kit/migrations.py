"""Brings a database to the schema of this version, once, however many processes try at the same time.

A migrations package holds `versions/`, where each revision is a `.py` that names itself and its predecessor beside a `.sql` of
the same name that does the work. The text of a revision that has been released never changes; a later revision corrects it.

Each revision and its mark in `alembic_version` are committed together: a process that dies in between leaves neither. One
process at a time migrates a database, behind an advisory lock of its own session, which the server lets go when the session
ends, however it ends. So connect to PostgreSQL itself, not through a pooler that hands sessions around.

There is no way down. Taking a revision back would drop columns and tables with the samples in them, and a sample that was
accepted is stored or declared lost. The way back is forward, by a revision that corrects, or by restoring a backup.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
from alembic.runtime.migration import MigrationContext, MigrationStep, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from farmiq.kit.database_roles import allow
from farmiq.kit.errors import Fatal, Transient
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import AWAY, RETRY, DatabaseAway

log = get_logger(__name__)

# Any number will do that nobody else takes in these databases: the letters "farmiq-m".
LOCK_KEY = int.from_bytes(b"farmiq-m", "big")

_LOCK_POLL_SECONDS = 0.1
# A revision that changes a table waits for the queries on it, and everybody else waits behind the revision.
_TABLE_LOCK_SECONDS = 30


class DatabaseRefused(Fatal):
    """PostgreSQL answers, but not to this address, user or password. Correct DATABASE_URL."""

    code = "database_refused"


class MigrationBusy(Transient):
    """Another process is migrating this database and has not finished in time. Nothing was changed here: try again later."""

    code = "migration_busy"


class SchemaUnknown(Fatal):
    """The database holds a revision that this version does not know: a newer FarmIQ migrated it, or it is the other tier's.

    Install that version, or correct DATABASE_URL.
    """

    code = "schema_unknown"


class RevisionFailed(Fatal):
    """The SQL of a revision was refused. It was rolled back whole, and those before it stay."""

    code = "revision_failed"


class RevisionInterrupted(Transient):
    """The database went away or was too busy in the middle of a revision. It was rolled back whole: migrate again."""

    code = "revision_interrupted"


async def migrate(database_url: str, package: str, *, patience_seconds: float = 60.0) -> list[str]:
    """Apply what is missing of `package` (like "farmiq.edge.migrations") and return the revisions applied, in order."""
    # The engine is given a connector and no address, so nothing of SQLAlchemy or Alembic ever sees the password.
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=partial(_connect, database_url), poolclass=NullPool
    )
    try:
        async with engine.connect() as connection:
            await _take_lock(connection, patience_seconds)
            applied = await connection.run_sync(_upgrade, package)
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await allow(driver, package)
    except DBAPIError as error:
        raise _named(error.orig.__cause__ if error.orig else None, "the migration") from error
    log.info("schema_migrated", package=package, revisions=applied)
    return applied


def execute_sql_beside(revision_file: str, connection: Connection) -> None:
    """What a revision's `upgrade` does: run the `.sql` that stands beside it, in the revision's transaction."""
    # The driver below opens its transaction with SQLAlchemy's first statement. The script goes around SQLAlchemy, because
    # only the simple protocol takes many statements, so this one has to come before it or the script would commit by itself.
    connection.execute(text(f"SET LOCAL lock_timeout = '{_TABLE_LOCK_SECONDS}s'"))
    script = Path(revision_file).with_suffix(".sql")
    driver: Any = connection.connection.dbapi_connection
    sql = script.read_text(encoding="utf-8")
    try:
        driver.run_async(lambda raw: raw.execute(sql))
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise _named(error, f"revision {script.stem}") from error


def _named(cause: BaseException | None, what: str) -> RevisionFailed | RevisionInterrupted:
    if isinstance(cause, RETRY):
        return RevisionInterrupted(f"{what} was rolled back, migrate again: {cause}")
    return RevisionFailed(f"{what} was refused and rolled back: {cause}")


async def _connect(database_url: str) -> "asyncpg.Connection[asyncpg.Record]":
    try:
        return await asyncpg.connect(
            database_url, timeout=10.0, server_settings={"application_name": "farmiq-migrate", "timezone": "UTC"}
        )
    except ValueError:
        # Its text quotes the part of the address that it could not read, which may be the password.
        raise DatabaseRefused("DATABASE_URL is not postgresql://user:password@host:port/database") from None
    except AWAY as error:
        raise DatabaseAway(f"PostgreSQL does not answer at {_place(database_url)}: {error}") from error
    except asyncpg.PostgresError as error:
        raise DatabaseRefused(f"PostgreSQL at {_place(database_url)} refuses: {error}") from error


def _place(database_url: str) -> str:
    parts = urlsplit(database_url)
    return parts.netloc.rpartition("@")[2] + parts.path


async def _take_lock(connection: AsyncConnection, patience_seconds: float) -> None:
    # Asks again and again instead of waiting inside PostgreSQL: a waiting statement holds a snapshot, and a revision that
    # builds an index concurrently waits for every older snapshot, so the two would wait for each other.
    try:
        async with asyncio.timeout(patience_seconds):
            while not await _try_lock(connection):  # noqa: ASYNC110 - the lock is PostgreSQL's, no event of ours tells of it
                await asyncio.sleep(_LOCK_POLL_SECONDS)
    except TimeoutError as error:
        raise MigrationBusy(
            f"another process has been migrating this database for more than {patience_seconds:g} s"
        ) from error


async def _try_lock(connection: AsyncConnection) -> bool:
    taken = await connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": LOCK_KEY})
    await connection.commit()
    return bool(taken)


def _upgrade(connection: Connection, package: str) -> list[str]:
    scripts = ScriptDirectory(str(files(package)))
    applied: list[str] = []

    def missing(heads: Sequence[str], _context: MigrationContext) -> Iterator[RevisionStep]:
        _refuse_unknown(heads, scripts)
        for script in reversed(list(scripts.iterate_revisions("heads", tuple(heads)))):
            yield MigrationStep.upgrade_from_script(scripts.revision_map, script)
            applied.append(script.revision)

    # Alembic's usual way, through env.py and `op`, keeps the connection in module globals: two databases migrated by one
    # process at the same time would get each other's. Here the connection goes to each revision as an argument.
    context = MigrationContext.configure(connection, opts={"fn": missing, "transaction_per_migration": True})
    context.run_migrations(connection=connection)
    connection.commit()
    return applied


def _refuse_unknown(heads: Sequence[str], scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if strange := sorted(set(heads) - known):
        raise SchemaUnknown(
            f"the database is at revision {', '.join(strange)}, which is not among {', '.join(sorted(known))}: "
            "a newer FarmIQ migrated it, or DATABASE_URL names the other tier's database"
        )

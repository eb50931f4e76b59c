"""PostgreSQL through asyncpg: a pool, JSON as raw bytes, and one answer to "is the database away?"."""

import asyncio
from functools import cache, partial
from typing import Any, TypeAlias

import asyncpg
import msgspec

from farmiq.kit.errors import Fatal, Transient
from farmiq.kit.logging import get_logger, mask
from farmiq.kit.retry import Backoff

log = get_logger(__name__)

Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"

# What a restart, a crash, a full connection table or a cut cable looks like from here. A transaction that ends with one of
# these may or may not have been committed: whoever retries must be idempotent.
AWAY: tuple[type[BaseException], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server said goodbye in the very moment in which we asked
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    OSError,
    TimeoutError,
)
# The transaction was rolled back through no fault of its content, and will go through when tried again.
ROLLED_BACK: tuple[type[BaseException], ...] = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.DiskFullError,
    asyncpg.OutOfMemoryError,
)
RETRY: tuple[type[BaseException], ...] = AWAY + ROLLED_BACK

RESTORING = "farmiq: a restore is under way"
"""The comment of the schema while a backup is being restored into it. Until it is gone no service may speak for this database:
it would speak under the epoch of the life that has ended."""
RESTORE_UNFINISHED = f"SELECT obj_description(to_regnamespace('public')) = '{RESTORING}'"


class Session(asyncpg.Connection):
    """Goes back to the pool without a question. asyncpg would ask the server each time to undo SET, LISTEN and session locks: one
    more way to the database for every use of it. So nobody sets anything for a session of the pool, and who takes a lock for one
    gives it back with `certainly`."""

    __slots__ = ()

    def get_reset_query(self) -> str:
        return ""


class DatabaseAway(Transient):
    """PostgreSQL does not answer. Work waits and goes on by itself when it is back."""

    code = "database_away"


class SchemaMissing(Fatal):
    """The database has not been migrated. Run `farmiq migrate edge` or `farmiq migrate cloud` on it."""

    code = "schema_missing"


class RestoreUnfinished(Fatal):
    """A backup is being restored into this database, or somebody stopped half way. Run the same `farmiq backup restore` again."""

    code = "restore_unfinished"


async def open_pool(url: str, *, service: str, size_max: int = 8, patience_seconds: float = 60.0) -> Pool:
    """A pool on the database, waiting for one that is still starting. A service of a tier works as the role that it has there."""
    backoff = Backoff(base_seconds=0.1, cap_seconds=2.0)
    waited = 0.0
    while True:
        pool = await _create(url, service, size_max)
        try:
            await ping(pool)
        except AWAY as error:
            pool.terminate()
            if waited >= patience_seconds:
                raise DatabaseAway(f"PostgreSQL does not answer at {mask(url)}: {error}") from error
            waited += await _wait(backoff, url, error)
        else:
            return pool


def storable(text: str) -> str:
    """PostgreSQL's text holds no NUL and no half characters; what comes from outside may."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()


async def require_schema(pool: Pool) -> None:
    """For a service's start: a database without tables is told apart from a service with a bug."""
    if await pool.fetchval("SELECT to_regclass('alembic_version') IS NULL"):
        raise SchemaMissing(
            "The database has no tables yet. Run: farmiq migrate edge (or cloud), with its DATABASE_URL"
        )
    if await pool.fetchval(RESTORE_UNFINISHED):
        raise RestoreUnfinished("The restore of a backup into this database has not ended")


async def _create(url: str, service: str, size_max: int) -> Pool:
    return await asyncpg.create_pool(
        url,
        # Connections are made when they are needed: asyncpg would otherwise log a traceback a second while the database is away.
        min_size=0,
        max_size=size_max,
        init=partial(_prepare_for, service),
        connection_class=Session,
        timeout=10.0,
        command_timeout=60.0,
        server_settings={"application_name": service, "timezone": "UTC", "jit": "off"},
    )


async def prepare(connection: Connection) -> None:
    """JSON passes through as bytes: what a device sent is stored and forwarded without being decoded on the way."""
    await connection.set_type_codec(
        "jsonb", encoder=_jsonb_out, decoder=_jsonb_in, schema="pg_catalog", format="binary"
    )


async def _prepare_for(service: str, connection: Connection) -> None:
    await prepare(connection)
    if not service.startswith(("edge-", "cloud-")):
        return
    try:
        is_taken = await connection.fetchval("SELECT write_as($1)", service)
    except asyncpg.UndefinedFunctionError:
        return  # a schema without roles: whoever needs a newer one says so
    if not is_taken:
        _warn_of_owner(service)


@cache
def _warn_of_owner(service: str) -> None:
    log.warning("service_role_skipped", service=service, fix="farmiq migrate says which roles are missing")


async def certainly(connection: Connection, statement: str, *arguments: Any) -> Any:
    """For locks of a session: the answer, or else the end of the session and of whatever it may hold."""
    try:
        return await connection.fetchval(statement, *arguments)
    except BaseException:
        connection.terminate()
        raise


async def ping(pool: Pool) -> None:
    """Readiness: the database answers."""
    await pool.fetchval("SELECT 1", timeout=2.0)


def _jsonb_out(value: Any) -> bytes:
    return b"\x01" + msgspec.json.encode(value)


def _jsonb_in(data: bytes) -> msgspec.Raw:
    return msgspec.Raw(data[1:])


async def _wait(backoff: Backoff, url: str, error: BaseException) -> float:
    seconds = backoff.next_seconds()
    if backoff.failures == 1:
        log.warning("database_waited_for", url=mask(url), reason=str(error))
    await asyncio.sleep(seconds)
    return seconds

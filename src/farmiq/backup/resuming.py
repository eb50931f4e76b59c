"""What a restore remembers in the database that it restores, so that the same command can be given again after a kill.

It lies in a schema of its own, which no dump takes along. Until the restore has ended it is what the database held before, which
nobody can ask any more; afterwards, what was told about it, because whoever asked may have been killed before he read it.
"""

from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from farmiq.backup import frozen
from farmiq.backup.manifest import Manifest
from farmiq.backup.replaced import Held
from farmiq.kit.postgres import RESTORING, Connection

_CLEAR: Final = f"""
DROP SCHEMA public CASCADE;
CREATE SCHEMA public;
COMMENT ON SCHEMA public IS '{RESTORING}';
DROP SCHEMA IF EXISTS farmiq_restore CASCADE;
CREATE SCHEMA farmiq_restore;
CREATE TABLE farmiq_restore.begun (backup_id uuid NOT NULL, held text NOT NULL);
"""
_BEGIN: Final = "INSERT INTO farmiq_restore.begun VALUES ($1, $2)"
_OPEN: Final = """
COMMENT ON SCHEMA public IS 'standard public schema';
DROP TABLE farmiq_restore.begun;
CREATE TABLE farmiq_restore.ended (backup_id uuid NOT NULL, rows text NOT NULL, report text NOT NULL);
"""
_END: Final = "INSERT INTO farmiq_restore.ended VALUES ($1, $2, $3)"
_ENDED: Final = "SELECT xmin, rows, report FROM farmiq_restore.ended WHERE backup_id = $1"
_IS_THERE: Final = "SELECT to_regclass($1) IS NOT NULL"


async def held_before(connection: Connection) -> Held | None:
    """What the database held before the restore that was cut. None when it could not be read then."""
    if not await connection.fetchval(_IS_THERE, "farmiq_restore.begun"):
        return None
    return msgspec.json.decode(await connection.fetchval("SELECT held FROM farmiq_restore.begun"), type=Held | None)


async def clear(connection: Connection, manifest: Manifest, held: Held | None) -> None:
    """In one step: what is emptied is never forgotten."""
    async with connection.transaction():
        await connection.execute(_CLEAR)
        await connection.execute(_BEGIN, manifest.backup_id, msgspec.json.encode(held).decode())


async def end(connection: Connection, manifest: Manifest, report: bytes) -> None:
    """Inside the transaction that opens the database to its services, as the last thing in it."""
    await connection.execute(_OPEN)
    rows = msgspec.json.encode(await frozen.count_rows(connection)).decode()
    async with connection.transaction():  # one within the other has the newest number of all, and its row carries it
        await connection.execute(_END, manifest.backup_id, rows, report.decode())


async def report_of(connection: Connection, backup_id: UUID) -> bytes | None:
    """Of a restore of this very backup, unless anything has been written since, or can't be read: then it has to be restored."""
    if not await connection.fetchval(_IS_THERE, "farmiq_restore.ended"):
        return None
    try:
        ended = await connection.fetchrow(_ENDED, backup_id)
        if ended is None or await frozen.count_rows(connection) != msgspec.json.decode(ended["rows"]):
            return None
        is_changed = await frozen.has_rows_since(connection, ended["xmin"])
    except asyncpg.PostgresError:
        return None
    return None if is_changed else str(ended["report"]).encode()

"""Every statement on `cloud_identity`, and what a database from a backup has to forget about events."""

from datetime import datetime
from typing import Final
from uuid import UUID

from farmiq.contracts.sync import CloudLife
from farmiq.kit.postgres import Connection, Pool

_LIFE: Final = "SELECT epoch, began_at, resend_since FROM cloud_identity"
# An edge that was away during the life in which the backup was taken needs that life's time, if it is the earlier one.
_BEGIN: Final = """
UPDATE cloud_identity SET
  epoch = gen_random_uuid(), began_at = greatest(clock_timestamp(), began_at + interval '1 microsecond'),
  resend_since = least($1::timestamptz, CASE WHEN began_at > $1 - interval '35 days' THEN resend_since END)
RETURNING epoch, began_at, resend_since
"""
# An event of that time may have been on the bus when the backup was taken, and in no table but this one: it would come again and
# be called a duplicate. Whoever stores events recognises those that he has.
_FORGET: Final = "DELETE FROM ingest_dedupe WHERE first_seen_at >= $1"


async def current_life(connection: "Connection | Pool") -> CloudLife:
    row = await connection.fetchrow(_LIFE)
    assert row is not None  # noqa: S101 - the table always has its one row
    return CloudLife(**dict(row.items()))


async def current_epoch(connection: Connection) -> UUID | None:
    """None in a database whose schema is older than lives."""
    if await connection.fetchval("SELECT to_regclass('public.cloud_identity') IS NULL"):
        return None
    return (await current_life(connection)).epoch


async def begin_life(connection: Connection, resend_since: datetime) -> tuple[CloudLife, int]:
    """For a database that comes from a backup: the new life, and how many events may come again. Call it before any edge is
    answered."""
    row = await connection.fetchrow(_BEGIN, resend_since)
    assert row is not None  # noqa: S101 - as above
    life = CloudLife(**dict(row.items()))
    forgotten = await connection.execute(_FORGET, life.resend_since)
    return life, int(forgotten.rpartition(" ")[2])

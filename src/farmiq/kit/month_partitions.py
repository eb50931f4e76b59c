"""Monthly partitions of a table: which there are, made ahead, and dropped without anybody having to wait long.

`ensure_month_partition` of the migrations makes one. The table's key is a time, or a UUID v7 whose first 48 bits are one.

Dropping needs the whole table for a moment, and `DETACH ... CONCURRENTLY`, which does not, is refused by PostgreSQL where a
default partition exists. So the lock is asked for with a short patience: whoever writes meanwhile stands behind us for at
most that long, and when a long query is in front of us we go away and come again.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Final
from uuid import UUID

import asyncpg
import msgspec

from farmiq.kit.jobs import Report, Work
from farmiq.kit.postgres import Connection

LOCK_MILLISECONDS: Final = 100
ATTEMPTS: Final = 8
ATTEMPT_PAUSE_SECONDS: Final = 0.5

_PARTITIONS: Final = """
SELECT child.oid::regclass::text AS name, pg_get_expr(child.relpartbound, child.oid) AS bounds
FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid
WHERE inhparent = $1::text::regclass AND child.relpartbound IS NOT NULL AND NOT inhdetachpending
"""
_RANGE = re.compile(r"FOR VALUES FROM \('([^']+)'\) TO \('([^']+)'\)")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

StillTrue = Callable[[Connection], Awaitable[bool]]


class Partition(msgspec.Struct, frozen=True):
    """Everything from `lower_at` on and before `upper_at`. The name can stand in SQL as it is."""

    name: str
    lower_at: datetime
    upper_at: datetime


async def partitions(connection: Connection, table: str) -> list[Partition]:
    """Those with two ends, the oldest first. The default partition has none."""
    rows = await connection.fetch(_PARTITIONS, table)
    ranges = [(row["name"], _RANGE.fullmatch(row["bounds"])) for row in rows]
    found = [Partition(name, _moment(both[1]), _moment(both[2])) for name, both in ranges if both]
    return sorted(found, key=lambda partition: partition.lower_at)


def month_after(month: date, months: int = 1) -> date:
    index = month.year * 12 + month.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


async def make_months(work: Work, table: str, months: Iterable[date]) -> Report:
    """What is missing of these months. One that cannot be made now, because a long query is in the way, is `postponed`."""
    known = {partition.lower_at.date() for partition in await partitions(work.connection, table)}
    wanted = sorted({month.replace(day=1) for month in months} - known)
    made = wanted if work.is_dry_run else [month for month in wanted if await _make(work.connection, table, month)]
    return {"made": len(made), "postponed": len(wanted) - len(made)}


async def drop(connection: Connection, table: str, partition: Partition, still_true: StillTrue | None = None) -> bool:
    """False when others would not let go of the table for long enough, or when `still_true`, asked under the lock, says no."""
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(ATTEMPT_PAUSE_SECONDS)
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_MILLISECONDS}ms'")
                # The parent first, as every writer and reader takes it: so nobody can wait for us in a circle.
                await connection.execute(f"LOCK TABLE ONLY {table} IN ACCESS EXCLUSIVE MODE")
                if still_true is not None and not await still_true(connection):
                    return False
                await connection.execute("SELECT drop_partition($1::text::regclass)", partition.name)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            continue
        return True
    return False


async def _make(connection: Connection, table: str, month: date) -> bool:
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(ATTEMPT_PAUSE_SECONDS)
        if await connection.fetchval("SELECT ensure_month_partition($1::text::regclass, $2)", table, month) is not None:
            return True
    return False


def _moment(bound: str) -> datetime:
    if len(bound) == len(str(UUID(int=0))) and bound.count("-") == 4:
        return _EPOCH + timedelta(milliseconds=UUID(bound).int >> 80)
    return datetime.fromisoformat(bound)

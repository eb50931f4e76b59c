"""Rows too old to keep leave a table in steps: short locks, short transactions, and room that is free again soon after."""

import asyncio
from datetime import datetime
from typing import Final

from farmiq.kit.jobs import Work

STEP_ROWS: Final = 5000
STEP_PAUSE_SECONDS: Final = 0.05
"""Between two steps the disk and the writers have their turn."""


async def sweep(work: Work, table: str, key: str, before: datetime, *, step_rows: int = STEP_ROWS) -> int:
    """Delete the rows whose `key`, which has an index, is before that time. Returns how many; in a dry run, how many it would.

    A row that somebody else has locked is passed over: the next run finds it.
    """
    if work.is_dry_run:
        count = f"SELECT count(*) FROM {table} WHERE {key} < $1"  # noqa: S608 - table and key are constants of the callers
        return int(await work.connection.fetchval(count, before))
    removed = 0
    floor: datetime | None = None
    while True:
        step = await work.connection.fetchrow(_step(table, key), floor, before, step_rows)
        assert step is not None  # noqa: S101 - an aggregate always has its one row
        gone: int = step["removed"]
        removed += gone
        if gone < step_rows:
            return removed
        floor = step["last_at"]
        await asyncio.sleep(STEP_PAUSE_SECONDS)


def _step(table: str, key: str) -> str:
    # Each step starts where the last one ended: from the beginning of the index it would walk over everything that was
    # deleted before it, and a large clean-up would take the square of its time.
    return f"""
        WITH step AS MATERIALIZED (
          SELECT ctid AS place FROM {table} WHERE {key} >= coalesce($1::timestamptz, '-infinity') AND {key} < $2
          ORDER BY {key} LIMIT $3 FOR UPDATE SKIP LOCKED),
        gone AS (DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT place FROM step)) RETURNING {key} AS at)
        SELECT count(*) AS removed, max(at) AS last_at FROM gone
    """  # noqa: S608 - as above

"""Every SQL statement about jobs: the lock that one replica holds while it works, and the row that says when it did."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

import msgspec

from farmiq.kit.postgres import Connection, certainly

ERROR_LENGTH_MAX: Final = 1000

_TRY_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended('farmiq job ' || $1, 0))"
_UNLOCK: Final = "SELECT pg_advisory_unlock(hashtextextended('farmiq job ' || $1, 0))"
# The age is the database's, so replicas whose clocks disagree agree about what is due.
_LAST: Final = """
SELECT job_name, last_started_at, last_finished_at, last_succeeded_at, last_failed_at, last_duration_seconds, last_report,
       last_error, last_instance_id, extract(epoch FROM clock_timestamp() - last_started_at)::float8 AS age_seconds
FROM job_runs WHERE job_name = ANY ($1)
"""
# What a job believes of the clock goes on by a step at most, and never back: a machine that starts with an old time would delete
# nothing for months. A row of 0.1.0 has no such time: the start of its last run counts.
_STARTED: Final = """
INSERT INTO job_runs AS known (job_name, last_started_at, believed_at, last_instance_id) VALUES ($1, now(), now(), $2)
ON CONFLICT (job_name) DO UPDATE SET
  last_started_at = now(), last_finished_at = NULL, last_instance_id = $2,
  believed_at = greatest(known.believed_at,
                         least(now(), coalesce(known.believed_at, known.last_started_at) + make_interval(secs => $3)))
RETURNING greatest(now() - believed_at, interval '0')
"""
_DOUBT: Final = """
SELECT greatest(now() - coalesce(believed_at, last_started_at) - make_interval(secs => $2), interval '0') FROM job_runs
WHERE job_name = $1
"""
_SUCCEEDED: Final = """
UPDATE job_runs SET last_finished_at = now(), last_succeeded_at = now(),
                    last_duration_seconds = $2, last_report = $3, last_error = NULL
WHERE job_name = $1
"""
_FAILED: Final = """
UPDATE job_runs SET last_finished_at = now(), last_failed_at = now(),
                    last_duration_seconds = $2, last_error = $3
WHERE job_name = $1
"""


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    job_name: str
    last_started_at: datetime
    last_finished_at: datetime | None
    last_succeeded_at: datetime | None
    last_failed_at: datetime | None
    last_duration_seconds: float | None
    last_report: msgspec.Raw
    last_error: str | None
    last_instance_id: str
    age_seconds: float


@asynccontextmanager
async def locked(connection: Connection, job_name: str) -> AsyncIterator[bool]:
    """True inside when the job is ours until the end of the block, or of the session. Never waits."""
    is_ours = await certainly(connection, _TRY_LOCK, job_name)
    try:
        yield is_ours
    finally:
        # A connection that is gone has taken its lock with it.
        if is_ours and not connection.is_closed():
            await certainly(connection, _UNLOCK, job_name)


async def last_runs(connection: Connection, job_names: Sequence[str]) -> dict[str, LastRun]:
    rows = await connection.fetch(_LAST, list(job_names))
    return {row["job_name"]: LastRun(**dict(row.items())) for row in rows}


async def record_start(connection: Connection, job_name: str, instance_id: str, step_seconds: float) -> timedelta:
    """Returns by how much the clock has gone on further than the job believes: by `step_seconds` since its last run."""
    doubt: timedelta = await connection.fetchval(_STARTED, job_name, instance_id, step_seconds)
    return doubt


async def doubt(connection: Connection, job_name: str, step_seconds: float) -> timedelta:
    """What the next `record_start` would return."""
    found: timedelta | None = await connection.fetchval(_DOUBT, job_name, step_seconds)
    return found or timedelta()


async def record_success(
    connection: Connection, job_name: str, seconds: float, report: Mapping[str, int | list[str]]
) -> None:
    await connection.execute(_SUCCEEDED, job_name, seconds, report)


async def record_failure(connection: Connection, job_name: str, seconds: float, error: str) -> None:
    await connection.execute(_FAILED, job_name, seconds, error[:ERROR_LENGTH_MAX])

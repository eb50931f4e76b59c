"""What only a person decides: dead letters go back into the queue, and rows are taken from a forwarder that is stuck."""

from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.kit.due_times import is_due
from farmiq.kit.postgres import Connection

STEP_ROWS: Final = 5000

# Only what was dead when the administrator asked: otherwise events that the cloud refuses at once would go round for ever. What
# died later than now, died by a clock that was ahead.
_CHOSEN: Final = """
status = 'dlq' AND (coalesce(failed_at, updated_at) <= $1 OR coalesce(failed_at, updated_at) > clock_timestamp())
AND ($2::uuid[] IS NULL OR id = ANY ($2)) AND ($3::text IS NULL OR tenant_id = $3)
AND ($4::text IS NULL OR event_type = $4) AND ($5::text IS NULL OR last_error_code = $5)
AND ($6::float8 IS NULL OR coalesce(failed_at, updated_at) < $1 - make_interval(secs => $6)
     OR coalesce(failed_at, updated_at) > clock_timestamp())
"""
_REDRIVE: Final = f"""
UPDATE sync_outbox SET
  status = 'pending', parked = false, attempt_count = 0, next_attempt_at = clock_timestamp(),
  last_error_code = NULL, last_error_message = NULL, failed_at = NULL, dlq_reason = NULL, updated_at = clock_timestamp()
WHERE ctid = ANY (ARRAY(SELECT ctid FROM sync_outbox WHERE {_CHOSEN} LIMIT $7 FOR UPDATE SKIP LOCKED))
"""  # noqa: S608 - the condition is the constant above
_CHOSEN_COUNT: Final = f"SELECT count(*) FROM sync_outbox WHERE {_CHOSEN}"  # noqa: S608 - as above
# Those that died at their last attempt, and not at one after it: they are given one more, and only once.
_TRY_ONCE_MORE: Final = """
UPDATE sync_outbox SET
  status = 'pending', parked = false, next_attempt_at = clock_timestamp(), failed_at = NULL, dlq_reason = NULL,
  updated_at = clock_timestamp()
WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM sync_outbox
  WHERE status = 'dlq' AND tenant_id = $1 AND last_error_code = $2 AND attempt_count <= $3
  LIMIT $4 FOR UPDATE SKIP LOCKED))
"""
# Nobody can have claimed a row later than now, except by a clock that was ahead.
_UNCLAIM: Final = f"""
UPDATE sync_outbox SET
  status = 'pending', parked = false, claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
  next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM sync_outbox
  WHERE status IN ('claimed', 'sending') AND (
    {is_due("coalesce(lease_expires_at, '-infinity')", now="$3")}
    OR claimed_at < $3 - make_interval(secs => $2) OR claimed_at > clock_timestamp())
  LIMIT $1 FOR UPDATE SKIP LOCKED))
"""  # noqa: S608 - the condition is a constant


class DeadLetters(Struct, frozen=True, kw_only=True):
    """Which ones. What is None does not matter, so without anything these are all of them."""

    ids: list[UUID] | None = None
    tenant_id: str | None = None
    event_type: str | None = None
    error_code: str | None = None
    older_than_seconds: float | None = None


async def redrive(connection: Connection, which: DeadLetters) -> int:
    """These dead letters are tried again as if they were new, in steps that hold no lock for long. Returns how many."""
    now = await connection.fetchval("SELECT clock_timestamp()")
    total = 0
    while changed := await _changed(connection, _REDRIVE, now, *_chosen(which), STEP_ROWS):
        total += changed
    return total


async def try_once_more(connection: Connection, tenant_id: str, error_code: str, attempts_max: int) -> int:
    """Dead letters that nobody judged one by one: whoever refused them takes others now. Each is given one more attempt, once;
    when that fails as well, it is left to a person."""
    total = 0
    while changed := await _changed(connection, _TRY_ONCE_MORE, tenant_id, error_code, attempts_max, STEP_ROWS):
        total += changed
    return total


async def count_dead_letters(connection: Connection, which: DeadLetters) -> int:
    """How many `redrive` would take. Reads every dead letter."""
    now = await connection.fetchval("SELECT clock_timestamp()")
    return int(await connection.fetchval(_CHOSEN_COUNT, now, *_chosen(which)))


def _chosen(which: DeadLetters) -> tuple[object, ...]:
    return which.ids, which.tenant_id, which.event_type, which.error_code, which.older_than_seconds


async def unclaim(connection: Connection, *, older_than_seconds: float) -> int:
    """Rows whose lease is over, or which were claimed longer ago than that. Unlike a rescue it counts no attempt.

    A forwarder that still has one of them may send it once more; what it then writes about it changes nothing. What is
    claimed while this goes on is left alone, or forwarders would claim as fast as this takes away.
    """
    now = await connection.fetchval("SELECT clock_timestamp()")
    total = 0
    while changed := await _changed(connection, _UNCLAIM, STEP_ROWS, older_than_seconds, now):
        total += changed
    return total


async def _changed(connection: Connection, statement: str, *arguments: object) -> int:
    return int((await connection.execute(statement, *arguments)).rpartition(" ")[2])

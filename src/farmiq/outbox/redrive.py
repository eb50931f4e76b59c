"""What only a person decides: dead letters go back into the queue, and rows are taken from a forwarder that is stuck."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection

STEP_ROWS: Final = 5000

_REDRIVE: Final = """
UPDATE sync_outbox SET
  status = 'pending', parked = false, attempt_count = 0, next_attempt_at = clock_timestamp(),
  last_error_code = NULL, last_error_message = NULL, failed_at = NULL, dlq_reason = NULL, updated_at = clock_timestamp()
WHERE id = ANY (ARRAY(
  SELECT id FROM sync_outbox WHERE status = 'dlq' {condition} LIMIT $1 FOR UPDATE SKIP LOCKED))
"""
_REDRIVE_IDS: Final = _REDRIVE.format(condition="AND id = ANY ($2::uuid[])")
_REDRIVE_ALL: Final = _REDRIVE.format(condition="")
_UNCLAIM: Final = """
UPDATE sync_outbox SET
  status = 'pending', parked = false, claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
  next_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE id = ANY (ARRAY(
  SELECT id FROM sync_outbox
  WHERE status IN ('claimed', 'sending') AND (
    coalesce(lease_expires_at, '-infinity') < clock_timestamp()
    OR claimed_at < clock_timestamp() - make_interval(secs => $2))
  LIMIT $1 FOR UPDATE SKIP LOCKED))
"""


async def redrive(connection: Connection, ids: Sequence[UUID]) -> int:
    """These dead letters are tried again as if they were new. Ids of rows in another state are passed over."""
    return await _changed(connection, _REDRIVE_IDS, len(ids), list(ids))


async def redrive_all(connection: Connection) -> int:
    """Every dead letter, in steps that hold no lock for long."""
    total = 0
    while changed := await _changed(connection, _REDRIVE_ALL, STEP_ROWS):
        total += changed
    return total


async def unclaim(connection: Connection, *, older_than_seconds: float) -> int:
    """Rows whose lease is over, or which were claimed longer ago than that. Unlike a rescue it counts no attempt.

    A forwarder that still has one of them may send it once more; what it then writes about it changes nothing.
    """
    total = 0
    while changed := await _changed(connection, _UNCLAIM, STEP_ROWS, older_than_seconds):
        total += changed
    return total


async def _changed(connection: Connection, statement: str, *arguments: object) -> int:
    return int((await connection.execute(statement, *arguments)).rpartition(" ")[2])

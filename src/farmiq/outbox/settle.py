"""What became of claimed events, written down. Every statement is fenced by the token of the claim."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Lease
from farmiq.outbox.verdicts import MAX_ATTEMPTS_EXCEEDED, MESSAGE_LENGTH_MAX, Failure, Outcome, released

# `claimed_by` and `claimed_at` stay: they say who delivered the event and when.
# In all three fenced updates the status is excluded and not named: named, it matches the small index of what is in flight,
# and PostgreSQL would look through all of that once for every row of the batch.
_ACK: Final = """
UPDATE sync_outbox AS o SET
  status = 'acked', lease_expires_at = NULL, last_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
FROM unnest($1::uuid[], $2::bigint[]) AS given (id, claim_token)
WHERE o.id = given.id AND o.claim_token = given.claim_token AND o.status NOT IN ('pending', 'acked', 'dlq', 'failed')
RETURNING o.id
"""
_RETURN: Final = """
UPDATE sync_outbox AS o SET
  status = given.status, parked = given.status = 'pending' AND given.delay_seconds > 0,
  attempt_count = given.attempt_count,
  next_attempt_at = clock_timestamp() + make_interval(secs => given.delay_seconds),
  claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
  last_attempt_at = CASE WHEN given.error_code IS NULL THEN o.last_attempt_at ELSE clock_timestamp() END,
  last_error_code = coalesce(given.error_code, o.last_error_code),
  last_error_message = coalesce(given.error_message, o.last_error_message),
  failed_at = CASE WHEN given.status = 'dlq' THEN clock_timestamp() END,
  dlq_reason = CASE WHEN given.status = 'dlq' THEN $8 END,
  updated_at = clock_timestamp()
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::int[], $5::float8[], $6::text[], $7::text[])
  AS given (id, claim_token, status, attempt_count, delay_seconds, error_code, error_message)
WHERE o.id = given.id AND o.claim_token = given.claim_token AND o.status NOT IN ('pending', 'acked', 'dlq', 'failed')
RETURNING o.id
"""


async def settle(connection: Connection, outcomes: Sequence[Outcome]) -> set[UUID]:
    """Write the outcomes and return the ids that were still ours. The others' leases ran out: they are somebody else's now."""
    settled = await _ack(connection, [outcome.lease for outcome in outcomes if outcome.status == "acked"])
    return settled | await _return(connection, [outcome for outcome in outcomes if outcome.status != "acked"])


async def release(connection: Connection, leases: Sequence[Lease], failure: Failure | None = None) -> set[UUID]:
    """Give events back that nobody judged: the process is stopping, or the cloud cannot be reached."""
    return await _return(connection, [released(lease, failure) for lease in leases])


async def _ack(connection: Connection, leases: Sequence[Lease]) -> set[UUID]:
    if not leases:
        return set()
    rows = await connection.fetch(_ACK, [lease.id for lease in leases], [lease.claim_token for lease in leases])
    return {row["id"] for row in rows}


async def _return(connection: Connection, outcomes: Sequence[Outcome]) -> set[UUID]:
    if not outcomes:
        return set()
    failures = [outcome.failure for outcome in outcomes]
    rows = await connection.fetch(
        _RETURN,
        [outcome.lease.id for outcome in outcomes],
        [outcome.lease.claim_token for outcome in outcomes],
        [outcome.status for outcome in outcomes],
        [outcome.attempt_count for outcome in outcomes],
        [outcome.delay_seconds for outcome in outcomes],
        [failure.code if failure else None for failure in failures],
        [failure.message[:MESSAGE_LENGTH_MAX] if failure else None for failure in failures],
        MAX_ATTEMPTS_EXCEEDED,
    )
    return {row["id"] for row in rows}

"""What became of claimed events, written down. Every statement is fenced by the token of the claim."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Lease
from farmiq.outbox.fencing import STILL_OURS, fences
from farmiq.outbox.verdicts import MAX_ATTEMPTS_EXCEEDED, MESSAGE_LENGTH_MAX, Failure, Outcome, released

# `claimed_by` and `claimed_at` stay: they say who delivered the event and when.
_ACK: Final = f"""
UPDATE sync_outbox SET
  status = 'acked', acked_answer = $4, lease_expires_at = NULL,
  last_attempt_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE {STILL_OURS}
"""  # noqa: S608 - the condition is a constant
_ACKED: Final = """
SELECT o.id FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS given (id, tenant_id, claim_token)
CROSS JOIN LATERAL (
  SELECT id, claim_token, status FROM sync_outbox AS row
  WHERE row.id = given.id AND row.tenant_id = given.tenant_id OFFSET 0) AS o
WHERE o.claim_token = given.claim_token AND o.status = 'acked'
"""
_RETURN: Final = """
WITH ours AS MATERIALIZED (
  SELECT found.place, given.*
  FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $5::int[], $6::float8[], $7::text[], $8::text[])
    AS given (id, tenant_id, claim_token, status, attempt_count, delay_seconds, error_code, error_message)
  CROSS JOIN LATERAL (
    SELECT ctid AS place FROM sync_outbox AS row
    WHERE row.id = given.id AND row.tenant_id = given.tenant_id AND row.claim_token = given.claim_token
      AND row.status NOT IN ('pending', 'acked', 'dlq', 'failed') OFFSET 0) AS found)
UPDATE sync_outbox AS o SET
  status = ours.status, parked = ours.status = 'pending' AND ours.delay_seconds > 0,
  attempt_count = ours.attempt_count,
  next_attempt_at = clock_timestamp() + make_interval(secs => ours.delay_seconds),
  claimed_by = NULL, claimed_at = NULL, lease_expires_at = NULL,
  last_attempt_at = CASE WHEN ours.error_code IS NULL THEN o.last_attempt_at ELSE clock_timestamp() END,
  last_error_code = coalesce(ours.error_code, o.last_error_code),
  last_error_message = coalesce(ours.error_message, o.last_error_message),
  failed_at = CASE WHEN ours.status = 'dlq' THEN clock_timestamp() END,
  dlq_reason = CASE WHEN ours.status = 'dlq' THEN $9 END,
  updated_at = clock_timestamp()
FROM ours WHERE o.ctid = ours.place
RETURNING o.id
"""


async def settle(connection: Connection, outcomes: Sequence[Outcome], answer: int | None = None) -> set[UUID]:
    """Write the outcomes and return the ids that were still ours. The others' leases ran out: they are somebody else's now.
    `answer`: the number of the cloud's answer, if it counts them."""
    settled = await _ack(connection, [outcome.lease for outcome in outcomes if outcome.status == "acked"], answer)
    return settled | await _return(connection, [outcome for outcome in outcomes if outcome.status != "acked"])


async def release(connection: Connection, leases: Sequence[Lease], failure: Failure | None = None) -> set[UUID]:
    """Give events back that nobody judged: the process is stopping, or the cloud cannot be reached."""
    return await _return(connection, [released(lease, failure) for lease in leases])


async def _ack(connection: Connection, leases: Sequence[Lease], answer: int | None) -> set[UUID]:
    if not leases:
        return set()
    given = fences(leases)
    tag = await connection.execute(_ACK, *given, answer)
    if int(tag.rpartition(" ")[2]) == len(leases):
        return set(given[0])
    # Some were taken back. Asked only then: sending every id back costs more than writing the number down.
    return {row["id"] for row in await connection.fetch(_ACKED, *given)}


async def _return(connection: Connection, outcomes: Sequence[Outcome]) -> set[UUID]:
    if not outcomes:
        return set()
    failures = [outcome.failure for outcome in outcomes]
    async with connection.transaction():
        # The rows are known by their places: reading the table for them is never right, also where it is short.
        await connection.execute("SET LOCAL enable_seqscan = off")
        rows = await connection.fetch(
            _RETURN,
            *fences([outcome.lease for outcome in outcomes]),
            [outcome.status for outcome in outcomes],
            [outcome.attempt_count for outcome in outcomes],
            [outcome.delay_seconds for outcome in outcomes],
            [failure.code if failure else None for failure in failures],
            [failure.message[:MESSAGE_LENGTH_MAX] if failure else None for failure in failures],
            MAX_ATTEMPTS_EXCEEDED,
        )
    return {row["id"] for row in rows}

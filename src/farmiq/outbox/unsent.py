"""What the cloud does not have, for whoever wants to delete his own copy of it, or to say where something is."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Connection

# Each branch is one of the partial indexes, word for word: nothing is read of the rows that were acknowledged. One statement,
# because a row that is claimed or given back between two of them would be seen by neither.
_BRANCHES: Final = (
    "status = 'pending' AND NOT parked",
    "status = 'pending' AND parked",
    "status IN ('claimed', 'sending')",
    "status = 'dlq'",
    "status = 'failed'",
)
_BRANCH: Final = """
SELECT event_type, occurred_at, created_at, payload_json -> $2 AS field FROM sync_outbox
WHERE {} AND event_type = ANY ($1)
"""
UNSENT: Final = "UNION ALL".join(_BRANCH.format(branch) for branch in _BRANCHES) + "LIMIT $3"

_WAITING_BRANCH: Final = "SELECT id FROM sync_outbox WHERE {} AND tenant_id = $1 AND id > $2"
# A pack names its samples by its stream, its first sequence and the length of its columns.
_NAMED: Final = """
SELECT id, event_type, device_id, session_id, occurred_at, status IN ('dlq', 'failed') AS is_dead,
       payload_json ->> 'stream_id' AS stream_id, payload_json ->> 'seq0' AS first_seq,
       CASE WHEN jsonb_typeof(payload_json -> 't') = 'array' THEN jsonb_array_length(payload_json -> 't') END AS samples,
       coalesce(payload_json ->> 'inference_result_id', payload_json ->> 'media_id') AS record_id
"""
# The ids first: of a million rows that wait, only the payloads of one page are read.
WAITING: Final = f"""
WITH page AS MATERIALIZED ({" UNION ALL ".join(_WAITING_BRANCH.format(branch) for branch in _BRANCHES)} ORDER BY id LIMIT $3)
{_NAMED} FROM page JOIN sync_outbox USING (id) WHERE tenant_id = $1 ORDER BY id
"""
# No index knows when a row was acknowledged (see `retire.py`), so this reads the table, and of the payloads only those named.
# A time ahead of the clock is of a clock that has been set back since: nobody knows how long ago that was.
ACKNOWLEDGED: Final = f"""
WITH page AS MATERIALIZED (
  SELECT id FROM sync_outbox
  WHERE status = 'acked' AND tenant_id = $1 AND id > $2 AND updated_at <= clock_timestamp() + interval '1 minute'
    AND ($4::float8 IS NULL OR updated_at >= clock_timestamp() - make_interval(secs => $4))
  ORDER BY id LIMIT $3)
{_NAMED} FROM page JOIN sync_outbox USING (id) WHERE tenant_id = $1 AND status = 'acked' ORDER BY id
"""  # noqa: S608 - as above
BEFORE_ALL: Final = UUID(int=0)


class UnsentEvent(msgspec.Struct, frozen=True):
    """`field` is the one field of the payload that was asked for, None where it has none."""

    event_type: str
    occurred_at: datetime | None
    created_at: datetime
    field: msgspec.Raw | None


async def unsent(
    connection: Connection, event_types: Sequence[str], *, field: str, limit: int
) -> AsyncGenerator[UnsentEvent, None]:
    """Events of these types that are waiting, on their way, or given up: a dead letter is not in the cloud. In no order."""
    async with connection.transaction(readonly=True):
        async for row in connection.cursor(UNSENT, list(event_types), field, limit, prefetch=200):
            yield UnsentEvent(**dict(row.items()))


class WaitingEvent(msgspec.Struct, frozen=True):
    """`is_dead`: it was given up, and waits for a person. `stream_id`, `first_seq` and `samples` are of a pack, `record_id` names
    the result or the picture that the event is about."""

    id: UUID
    event_type: str
    device_id: str | None
    session_id: UUID | None
    occurred_at: datetime | None
    is_dead: bool
    stream_id: str | None = None
    first_seq: str | None = None
    samples: int | None = None
    record_id: str | None = None


async def waiting(
    connection: Connection, tenant_id: str, *, after: UUID = BEFORE_ALL, limit: int
) -> list[WaitingEvent]:
    """What of a tenant the cloud has not acknowledged, in the order of the ids, from behind `after`."""
    async with connection.transaction(readonly=True):
        # As in `backlog.measure`: the acknowledged rows of months must not be read for the few that are left.
        await connection.execute("SET LOCAL enable_seqscan = off")
        return [WaitingEvent(**dict(row.items())) for row in await connection.fetch(WAITING, tenant_id, after, limit)]


async def acknowledged(
    connection: Connection, tenant_id: str, *, seconds: float | None, after: UUID = BEFORE_ALL, limit: int
) -> list[WaitingEvent]:
    """What of a tenant the cloud has acknowledged in the last so many seconds, or ever and is still in the table. In the order of
    the ids, from behind `after`."""
    rows = await connection.fetch(ACKNOWLEDGED, tenant_id, after, limit, seconds)
    return [WaitingEvent(**dict(row.items())) for row in rows]

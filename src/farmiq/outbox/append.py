"""Into the outbox, inside the caller's transaction."""

from collections.abc import Sequence
from typing import Any, Final

import asyncpg
from msgspec import Raw

from farmiq.contracts.decoding import encode
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection
from farmiq.outbox.event import Event

COPY_FROM: Final = 50
"""From this many events on, COPY is faster than one statement, even with the savepoint that it needs."""

_COLUMNS: Final = (
    "id",
    "tenant_id",
    "farm_id",
    "barn_id",
    "device_id",
    "session_id",
    "event_type",
    "occurred_at",
    "trace_id",
    "priority",
    "payload_json",
    "payload_size_bytes",
)
_INSERT: Final = f"""
INSERT INTO sync_outbox ({", ".join(_COLUMNS)})
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[],
                     $8::timestamptz[], $9::text[], $10::int[], $11::jsonb[], $12::int[])
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the names are the constants above
_OTHERS: Final = """
SELECT given.id FROM unnest($1::uuid[], $2::text[]) AS given (id, tenant_id)
JOIN sync_outbox USING (id) WHERE sync_outbox.tenant_id <> given.tenant_id LIMIT 1
"""


class EventIdTaken(Rejected):
    """Another tenant's event has this id. Ids are made by devices and must be UUIDs of their own: this event is refused."""

    code = "event_id_taken"


async def append(connection: Connection, events: Sequence[Event]) -> None:
    """Add events. One that is there already stays as it is, so a caller that repeats its transaction repeats nothing."""
    rows = [_row(event) for event in events]
    if len(rows) < COPY_FROM or not await _copy(connection, rows):
        await _insert(connection, rows)


async def _copy(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
    """False when an id is there already: COPY cannot skip a row, and the savepoint has undone it."""
    try:
        async with connection.transaction():
            await connection.copy_records_to_table("sync_outbox", records=rows, columns=_COLUMNS)
    except asyncpg.UniqueViolationError:
        return False
    return True


async def _insert(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    if not rows:
        return
    columns = [list(column) for column in zip(*rows, strict=True)]
    tag = await connection.execute(_INSERT, *columns)
    if int(tag.rpartition(" ")[2]) == len(rows):
        return
    # Fewer rows than events: repeated ids are welcome, somebody else's are not, because skipping those would lose an event.
    if taken := await connection.fetchval(_OTHERS, columns[0], columns[1]):
        raise EventIdTaken(f"event {taken} belongs to another tenant")


def _row(event: Event) -> tuple[Any, ...]:
    payload = event.payload if isinstance(event.payload, Raw) else Raw(encode(event.payload))
    return (
        event.id,
        event.tenant_id,
        event.farm_id,
        event.barn_id,
        event.device_id,
        event.session_id,
        event.event_type,
        event.occurred_at,
        event.trace_id,
        event.priority,
        payload,
        len(bytes(payload)),
    )

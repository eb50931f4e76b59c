"""Into the outbox, inside the caller's transaction."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import asyncpg
from msgspec import Raw, Struct

from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import digest_of
from farmiq.contracts.timestamps import to_utc
from farmiq.kit.errors import EventIdReused
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
_ID, _TENANT, _PAYLOAD = (_COLUMNS.index(name) for name in ("id", "tenant_id", "payload_json"))
_INSERT: Final = f"""
INSERT INTO sync_outbox ({", ".join(_COLUMNS)})
SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::text[],
                     $8::timestamptz[], $9::text[], $10::int[], $11::jsonb[], $12::int[])
ON CONFLICT DO NOTHING
"""  # noqa: S608 - the names are the constants above
# Both payloads as PostgreSQL has them: what it makes of a number is no difference.
_KNOWN: Final = """
SELECT given.place, o.event_type, o.farm_id, o.barn_id, o.device_id, o.session_id, o.occurred_at, o.payload_json,
       given.payload AS given_payload
FROM unnest($1::uuid[], $2::text[], $3::jsonb[]) WITH ORDINALITY AS given (id, tenant_id, payload, place)
JOIN sync_outbox AS o USING (id, tenant_id)
"""


class Clash(Struct, frozen=True):
    """An event whose id stands for another event of its tenant, and as much of that one as tells whose it is."""

    event: Event
    known_type: str
    known_device_id: str | None
    known_session_id: UUID | None


async def append(connection: Connection, events: Sequence[Event]) -> None:
    """Add events whose ids come from devices. One that is there already stays as it is, so a caller that repeats its transaction
    repeats nothing. One that differs from what its id stands for is refused: skipping it would lose it."""
    if clashes := await add(connection, events):
        clash = clashes[0]
        raise EventIdReused(f"event {clash.event.id} was a {clash.known_type} of {clash.known_device_id} before")


async def add(connection: Connection, events: Sequence[Event]) -> list[Clash]:
    """Add events, except those whose ids stand for other events: the answer names them."""
    rows = [_row(event) for event in events]
    if len(rows) >= COPY_FROM and await _copy(connection, rows):
        return []
    clashes: list[Clash] = []
    left = list(zip(events, rows, strict=True))
    while left and not await _insert(connection, [row for _, row in left]):
        known = await _known(connection, [row for _, row in left])
        clashes += [
            Clash(event, row["event_type"], row["device_id"], row["session_id"])
            for place, (event, _) in enumerate(left, 1)
            if (row := known.get(place)) is not None and not _is_same(row, event)
        ]
        # A row that retention removed in between, after it was in the way: once more.
        left = [pair for place, pair in enumerate(left, 1) if place not in known]
    return clashes


async def _copy(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
    """False when an id is there already: COPY cannot skip a row, and the savepoint has undone it."""
    try:
        async with connection.transaction():
            await connection.copy_records_to_table("sync_outbox", records=rows, columns=_COLUMNS)
    except asyncpg.UniqueViolationError:
        return False
    return True


async def _insert(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Whether all of them are new."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    tag = await connection.execute(_INSERT, *columns)
    return int(tag.rpartition(" ")[2]) == len(rows)


async def _known(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> dict[int, asyncpg.Record]:
    """What the outbox has under these ids, by the place of the row that was given."""
    found = await connection.fetch(
        _KNOWN, [row[_ID] for row in rows], [row[_TENANT] for row in rows], [row[_PAYLOAD] for row in rows]
    )
    return {row["place"]: row for row in found}


def _is_same(row: asyncpg.Record, event: Event) -> bool:
    """By content, as the cloud compares: whatever describes one delivery makes no difference."""
    origin = (row["farm_id"], row["barn_id"], row["device_id"], row["session_id"])
    given = (event.farm_id, event.barn_id, event.device_id, event.session_id)
    occurred_at = None if event.occurred_at is None else to_utc(event.occurred_at)
    return digest_of(row["event_type"], origin, row["occurred_at"], row["payload_json"]) == digest_of(
        event.event_type, given, occurred_at, row["given_payload"]
    )


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

"""Who did what with dead letters, and what was thrown away. The letters themselves are in `saved`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.dead_letters.saved import SavedLetter
from farmiq.kit.errors import Transient
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Connection, certainly, storable

Kind = Literal["replay", "discard"]

ERROR_LENGTH_MAX: Final = 500
LOCK_SECONDS_MAX: Final = 5.0

# The first half of every lock's key, so that these are no other part's locks: the letters "dlq".
_LOCKS: Final = int.from_bytes(b"dlq", "big")
_LOCK: Final = "SELECT pg_try_advisory_lock($1, hashtext($2))"
_UNLOCK: Final = "SELECT pg_advisory_unlock($1, hashtext($2))"
_BEGIN: Final = """
INSERT INTO dead_letter_actions (action_id, kind, service, queue, asked_by, asked_over, trace_id, filter, is_dry_run, note)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb, $9, $10)
"""
_COUNT: Final = """
UPDATE dead_letter_actions SET seen = $2, matched = $3, done = $4, failed = $5 WHERE action_id = $1
"""
_FINISH: Final = "UPDATE dead_letter_actions SET finished_at = now(), error = $2 WHERE action_id = $1"
_KEEP: Final = """
INSERT INTO discarded_letters (action_id, message_id, reason, event_type, tenant_id, exchange, routing_key, headers, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
"""
_LIST: Final = """
SELECT action_id, kind, service, queue, asked_by, asked_over, trace_id, filter::text AS filter, is_dry_run, asked_at, finished_at,
       seen, matched, done, failed, error, note
FROM dead_letter_actions ORDER BY asked_at DESC, action_id DESC LIMIT $1
"""


class QueueBusy(Transient):
    """Somebody is going through this dead-letter queue at the moment. Two at a time would each see half of it."""

    code = "dlq_busy"
    fix = "farmiq dlq actions shows what is under way; try again when it is over"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and for what. `asked_by` comes from the credential, never from what was asked."""

    kind: Kind
    service: str
    queue: str
    wanted: Filter
    messages_max: int | None
    is_dry_run: bool
    asked_by: str
    asked_over: Literal["cli", "api"]
    trace_id: str | None = None
    note: str | None = None
    """Why, in the person's words."""


class Counts(msgspec.Struct):
    seen: int = 0
    matched: int = 0
    done: int = 0
    failed: int = 0


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Not finished means under way, or cut short: what it had done by then is counted."""

    action_id: UUID
    kind: Kind
    service: str
    queue: str
    asked_by: str
    asked_over: str
    trace_id: str | None
    filter: Any
    is_dry_run: bool
    asked_at: datetime
    finished_at: datetime | None
    seen: int
    matched: int
    done: int
    failed: int
    error: str | None
    note: str | None = None


@contextlib.asynccontextmanager
async def alone_with(connection: Connection, queue: str) -> AsyncIterator[None]:
    """Ends with the connection, so nobody who was killed keeps others out. Raises `QueueBusy`."""
    try:
        async with asyncio.timeout(LOCK_SECONDS_MAX):
            while not await certainly(connection, _LOCK, _LOCKS, queue):  # noqa: ASYNC110 - only PostgreSQL knows
                await asyncio.sleep(0.1)
    except TimeoutError as error:
        raise QueueBusy(f"Somebody else is going through {queue}") from error
    try:
        yield
    finally:
        if not connection.is_closed():
            await certainly(connection, _UNLOCK, _LOCKS, queue)


async def begin(connection: Connection, asked: Asked) -> UUID:
    action_id = new_id()
    told = msgspec.to_builtins(asked.wanted) | ({} if asked.messages_max is None else {"limit": asked.messages_max})
    await connection.execute(
        _BEGIN,
        action_id,
        asked.kind,
        asked.service,
        asked.queue,
        storable(asked.asked_by),
        asked.asked_over,
        asked.trace_id,
        storable(msgspec.json.encode(told).decode().replace("\\u0000", "")),
        asked.is_dry_run,
        None if asked.note is None else storable(asked.note),
    )
    return action_id


async def count(connection: Connection, action_id: UUID, counts: Counts) -> None:
    await connection.execute(_COUNT, action_id, counts.seen, counts.matched, counts.done, counts.failed)


async def finish(connection: Connection, action_id: UUID, error: str | None = None) -> None:
    await connection.execute(_FINISH, action_id, None if error is None else storable(error)[:ERROR_LENGTH_MAX])


async def keep(connection: Connection, action_id: UUID, letters: Sequence[SavedLetter]) -> None:
    await connection.executemany(_KEEP, [(action_id, *_row(one)) for one in letters])


async def actions(connection: Connection, limit: int) -> list[Action]:
    rows: Iterable[Any] = await connection.fetch(_LIST, limit)
    return [Action(**dict(row) | {"filter": msgspec.json.decode(row["filter"])}) for row in rows]


def _row(one: SavedLetter) -> tuple[object, ...]:
    letter = one.letter
    return (
        None if letter.message_id is None else storable(letter.message_id),
        storable(letter.reason),
        storable(letter.event_type),
        None if letter.tenant_id is None else storable(letter.tenant_id),
        storable(letter.exchange),
        storable(letter.routing_key),
        msgspec.json.encode(one.delivery.headers).decode(),
        one.delivery.body,
    )

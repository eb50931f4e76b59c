"""Every SQL statement of this service."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from farmiq.edge.ingress_gateway.screening import Refusal, Screened
from farmiq.kit.mqtt import Message
from farmiq.kit.postgres import Connection

KEPT_BYTES_MAX = 65_536

_SEE = """
    INSERT INTO ingress_dedupe (tenant_id, event_id, device_id, first_seen_at)
    SELECT DISTINCT ON (tenant_id, event_id) tenant_id, event_id, device_id, $4::timestamptz
      FROM unnest($1::text[], $2::uuid[], $3::text[]) AS seen (tenant_id, event_id, device_id)
     ORDER BY tenant_id, event_id
    ON CONFLICT DO NOTHING
    RETURNING tenant_id, event_id
"""
_FORGET = """
    DELETE FROM ingress_dedupe
     WHERE (tenant_id, event_id) IN (SELECT * FROM unnest($1::text[], $2::uuid[]))
"""
_REJECT = """
    INSERT INTO ingress_rejected (received_at, topic, reason, detail, payload, payload_size_bytes,
                                  tenant_id, device_id, event_id, trace_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
"""
_REJECTED = """
    SELECT id, received_at, topic, reason, detail, payload_size_bytes, tenant_id, device_id, event_id, trace_id
      FROM ingress_rejected
     WHERE ($1::text IS NULL OR tenant_id = $1) AND ($2::text IS NULL OR reason = $2)
     ORDER BY received_at DESC, id
     LIMIT $3
"""


async def first_seen(connection: Connection, messages: Sequence[Screened], at: datetime) -> set[tuple[str, UUID]]:
    """Which of these are seen for the first time. The others have been stored by an earlier transaction, or by this one."""
    tenants = [message.origin.tenant_id for message in messages]
    events = [message.event_id for message in messages]
    devices = [message.origin.device_id for message in messages]
    return {(row["tenant_id"], row["event_id"]) for row in await connection.fetch(_SEE, tenants, events, devices, at)}


async def forget(connection: Connection, refused: Sequence[Screened]) -> None:
    """A message that was refused after all must not look like one that was stored when it comes again."""
    if refused:
        await connection.execute(
            _FORGET, [message.origin.tenant_id for message in refused], [message.event_id for message in refused]
        )


async def keep_rejected(connection: Connection, rejected: Sequence[tuple[Message, Refusal]], at: datetime) -> None:
    await connection.executemany(_REJECT, [_rejected_row(message, refusal, at) for message, refusal in rejected])


async def rejected(
    connection: Connection, tenant_id: str | None, reason: str | None, limit: int
) -> list[asyncpg.Record]:
    return await connection.fetch(_REJECTED, tenant_id, reason, limit)


async def epoch(connection: Connection) -> UUID:
    """Which life of this database is speaking. Read in every transaction: a restore may happen under a running gateway."""
    found = await connection.fetchval("SELECT epoch FROM edge_identity")
    assert isinstance(found, UUID)  # noqa: S101 - the migration made the only row
    return found


def _storable(text: str) -> str:
    """PostgreSQL's text holds no NUL and no half characters; a hostile topic may."""
    return text.replace("\0", "\\0").encode("utf-8", "replace").decode()


def _rejected_row(message: Message, refusal: Refusal, at: datetime) -> tuple[object, ...]:
    return (
        at, _storable(message.topic), refusal.code, _storable(refusal.detail), message.payload[:KEPT_BYTES_MAX],
        len(message.payload), refusal.tenant_id, refusal.device_id, refusal.event_id, refusal.trace_id,
    )  # fmt: skip

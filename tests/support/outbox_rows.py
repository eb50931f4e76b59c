"""Rows of the outbox, made and looked at."""

from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.outbox import Event, append


async def fill_outbox(pool: Pool, count: int, tenant_id: str = "demo", **fields: Any) -> list[UUID]:
    """Pending events, each with its own number as payload. Returns their ids in the order of the claim."""
    given: dict[str, Any] = {"event_type": "test.event", "occurred_at": None, "device_id": "node-1", **fields}
    ids = sorted(new_id() for _ in range(count))
    events = [
        Event(id=event_id, tenant_id=tenant_id, payload=msgspec.Raw(b'{"n":%d}' % number), **given)
        for number, event_id in enumerate(ids)
    ]
    async with pool.acquire() as connection:
        await append(connection, events)
    return ids


async def outbox_row(pool: Pool, event_id: UUID) -> asyncpg.Record:
    row = await pool.fetchrow("SELECT * FROM sync_outbox WHERE id = $1", event_id)
    assert row is not None
    return row


async def count_by_status(pool: Pool) -> dict[str, int]:
    rows = await pool.fetch("SELECT status, count(*) FROM sync_outbox GROUP BY status")
    return {row["status"]: row["count"] for row in rows}

"""What is in the database of weigh sessions, in a form that two of them can be compared in."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Pool

_SESSION = """
    SELECT id, tenant_id, farm_id, barn_id, device_id, station_id, batch_id, status, start_at, end_at, initial_weight_kg,
           final_weight_kg, image_count, incomplete_since
      FROM weight_sessions WHERE id = ANY($1)
"""
_WEIGHTS = """
    SELECT session_id, occurred_at, weight_kg FROM session_weights WHERE session_id = ANY($1)
     ORDER BY occurred_at, weight_kg
"""
_PICTURES = """
    SELECT session_id, announced_at, stored_at IS NOT NULL AS is_stored FROM session_pictures WHERE session_id = ANY($1)
     ORDER BY announced_at, is_stored
"""
_TOLD = """
    SELECT session_id, event_type, id, payload_json FROM sync_outbox WHERE session_id = ANY($1)
     ORDER BY created_at, event_type, id
"""

Everything = dict[str, list[tuple[Any, ...]]]
Told = list[tuple[str, UUID, dict[str, Any]]]


async def everything_of(pool: Pool, session_id: UUID) -> Everything:
    """All that the events of a session add up to; nothing that says when they came."""
    return (await everything_of_each(pool, [session_id]))[session_id]


async def everything_of_each(pool: Pool, session_ids: Sequence[UUID]) -> dict[UUID, Everything]:
    queries = {"session": _SESSION, "weights": _WEIGHTS, "pictures": _PICTURES}
    found: dict[UUID, Everything] = {session_id: {name: [] for name in queries} for session_id in session_ids}
    for name, query in queries.items():
        for session_id, *values in await pool.fetch(query, session_ids):
            found[session_id][name].append(tuple(values))
    return found


async def told_of(pool: Pool, session_id: UUID) -> Told:
    """What is in the outbox for the cloud: type, id and payload, in the order in which it was put there."""
    return (await told_of_each(pool, [session_id]))[session_id]


async def told_of_each(pool: Pool, session_ids: Sequence[UUID]) -> dict[UUID, Told]:
    found: dict[UUID, Told] = {session_id: [] for session_id in session_ids}
    for row in await pool.fetch(_TOLD, session_ids):
        told = (row["event_type"], row["id"], msgspec.json.decode(row["payload_json"]))
        found[row["session_id"]].append(told)
    return found


async def open_alerts(pool: Pool, tenant_id: str = "demo") -> dict[str, dict[str, Any]]:
    """Subjects of the alerts that are not closed, with their evidence."""
    rows = await pool.fetch(
        "SELECT subject, evidence FROM ops_alerts WHERE tenant_id = $1 AND status <> 'closed'", tenant_id
    )
    return {row["subject"]: msgspec.json.decode(row["evidence"]) for row in rows}

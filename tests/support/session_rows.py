"""What is in the database of weigh sessions, in a form that two of them can be compared in."""

from typing import Any
from uuid import UUID

import msgspec

from farmiq.kit.postgres import Pool

_SESSION = """
    SELECT tenant_id, farm_id, barn_id, device_id, station_id, batch_id, status, start_at, end_at, initial_weight_kg,
           final_weight_kg, image_count, incomplete_since
      FROM weight_sessions WHERE id = $1
"""
_WEIGHTS = "SELECT occurred_at, weight_kg FROM session_weights WHERE session_id = $1 ORDER BY occurred_at, weight_kg"
_PICTURES = """
    SELECT announced_at, stored_at IS NOT NULL AS is_stored FROM session_pictures WHERE session_id = $1
     ORDER BY announced_at, is_stored
"""


async def everything_of(pool: Pool, session_id: UUID) -> dict[str, list[tuple[Any, ...]]]:
    """All that the events of a session add up to; nothing that says when they came."""
    return {
        name: [tuple(row) for row in await pool.fetch(query, session_id)]
        for name, query in {"session": _SESSION, "weights": _WEIGHTS, "pictures": _PICTURES}.items()
    }


async def told_of(pool: Pool, session_id: UUID) -> list[tuple[str, UUID, dict[str, Any]]]:
    """What is in the outbox for the cloud: type, id and payload, in the order in which it was put there."""
    rows = await pool.fetch(
        "SELECT event_type, id, payload_json FROM sync_outbox WHERE session_id = $1 ORDER BY created_at, event_type, id",
        session_id,
    )
    return [(row["event_type"], row["id"], msgspec.json.decode(row["payload_json"])) for row in rows]


async def open_alerts(pool: Pool, tenant_id: str = "demo") -> dict[str, dict[str, Any]]:
    """Subjects of the alerts that are not closed, with their evidence."""
    rows = await pool.fetch(
        "SELECT subject, evidence FROM ops_alerts WHERE tenant_id = $1 AND status <> 'closed'", tenant_id
    )
    return {row["subject"]: msgspec.json.decode(row["evidence"]) for row in rows}

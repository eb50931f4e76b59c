"""What a database held that is about to be replaced, as far as the backup may lack it: so that nothing goes without its name.

A database that cannot be read any more tells nothing. What is gone then, `farmiq audit` finds by asking the other tier.
"""

from datetime import datetime
from typing import Final

import asyncpg
from msgspec import Struct

from farmiq.backup.manifest import Tier
from farmiq.cloud.ingestion.epochs import latest_beginning
from farmiq.kit.postgres import Connection

_SAMPLES: Final = """
SELECT device_id, sum((SELECT coalesce(sum(upper(part) - lower(part)), 0) FROM unnest(received) AS part))::bigint AS samples
  FROM streams GROUP BY device_id
"""
_SESSIONS: Final = "SELECT id::text AS name FROM weight_sessions WHERE updated_at >= $1"
_KNOWN_SESSIONS: Final = "SELECT id::text AS name FROM weight_sessions WHERE id = ANY ($1::text[]::uuid[])"
_SPEAKERS: Final[dict[Tier, str]] = {
    "edge": "SELECT device_id AS name FROM devices WHERE revoked_at IS NULL",
    "cloud": "SELECT edge_cluster_id AS name FROM edges WHERE revoked_at IS NULL",
}


class Held(Struct, frozen=True, kw_only=True):
    """`samples` by device; `sessions` that changed since the backup; `speakers`: who may speak to this tier, devices or edges.
    `began_at`: when the last epoch of a cloud began; edges of 0.1.0 believe no epoch that began earlier."""

    samples: dict[str, int]
    sessions: set[str]
    speakers: set[str]
    began_at: datetime | None = None


class NotInBackup(Struct, frozen=True, kw_only=True):
    """What the replaced database had and the restored one has not. Devices may still have it; `speakers` must be added again."""

    samples: dict[str, int]
    sessions: list[str]
    speakers: list[str]


async def read_held(connection: Connection, tier: Tier, since: datetime) -> Held | None:
    """None when the database has no such tables, or cannot read them."""
    try:
        async with connection.transaction(readonly=True):
            return Held(
                samples={row["device_id"]: row["samples"] for row in await connection.fetch(_SAMPLES)},
                sessions={row["name"] for row in await connection.fetch(_SESSIONS, since)},
                speakers={row["name"] for row in await connection.fetch(_SPEAKERS[tier])},
                began_at=await latest_beginning(connection) if tier == "cloud" else None,
            )
    except asyncpg.PostgresError:
        return None


async def not_in_backup(connection: Connection, tier: Tier, before: Held) -> NotInBackup:
    """Asked of the restored database."""
    samples = {row["device_id"]: row["samples"] for row in await connection.fetch(_SAMPLES)}
    known = {row["name"] for row in await connection.fetch(_KNOWN_SESSIONS, sorted(before.sessions))}
    speakers = {row["name"] for row in await connection.fetch(_SPEAKERS[tier])}
    lacking = {device: count - samples.get(device, 0) for device, count in before.samples.items()}
    return NotInBackup(
        samples={device: count for device, count in sorted(lacking.items()) if count > 0},
        sessions=sorted(before.sessions - known),
        speakers=sorted(before.speakers - speakers),
    )

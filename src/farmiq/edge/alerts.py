"""What a person should look at: one alert for one cause until it is closed, however often the cause is seen."""

from collections.abc import Mapping
from typing import Final

from farmiq.kit.postgres import Connection

_RAISE: Final = """
INSERT INTO ops_alerts (tenant_id, kind, subject, dedupe_key, evidence) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, dedupe_key) WHERE status <> 'closed'
DO UPDATE SET last_seen_at = now(), subject = excluded.subject, evidence = excluded.evidence
"""
_CLOSE: Final = """
UPDATE ops_alerts SET status = 'closed', closed_at = now()
WHERE tenant_id IS NOT DISTINCT FROM $1 AND dedupe_key = $2 AND status <> 'closed'
"""


async def raise_alert(
    connection: Connection,
    kind: str,
    subject: str,
    dedupe_key: str,
    evidence: Mapping[str, object],
    tenant_id: str | None = None,
) -> None:
    """Open it, or show that its cause is still there. An alert about the edge box itself has no tenant."""
    await connection.execute(_RAISE, tenant_id, kind, subject, dedupe_key, evidence)


async def close_alert(connection: Connection, dedupe_key: str, tenant_id: str | None = None) -> None:
    """The cause is gone."""
    await connection.execute(_CLOSE, tenant_id, dedupe_key)

"""What a person should look at: one alert for one cause until it is closed, however often the cause is seen."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from farmiq.contracts.timestamps import Timestamp
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection

Status = Literal["open", "acknowledged", "closed"]
Kind = Literal[
    "weigh_session_incomplete",
    "picture_missing",
    "picture_refused",
    "media_integrity",
    "media_transfer_failed",
    "station_loss",
    "event_id_occupied",
    "inference_model",
    "inference_failed",
    "retention_held",
    "retention_forced",
    "device_of_another_edge",
    "device_put_off",
    "edge_database_replaced",
    "tenant_not_granted",
]
"""Each is a heading in `docs/operations/runbook.md`."""

_STORED: Final[Mapping[Status, str]] = {"open": "open", "acknowledged": "acked", "closed": "closed"}
_SHOWN: Final[Mapping[str, Status]] = {stored: shown for shown, stored in _STORED.items()}

_RAISE: Final = """
INSERT INTO ops_alerts (tenant_id, kind, subject, dedupe_key, evidence) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant_id, dedupe_key) WHERE status <> 'closed'
DO UPDATE SET last_seen_at = now(), subject = excluded.subject, evidence = excluded.evidence
"""
_CLOSE: Final = """
UPDATE ops_alerts SET status = 'closed', closed_at = now()
WHERE tenant_id IS NOT DISTINCT FROM $1 AND dedupe_key = $2 AND status <> 'closed'
"""
_OF_KIND: Final = "SELECT tenant_id, dedupe_key FROM ops_alerts WHERE status <> 'closed' AND kind = $1"
_COMMANDS: Final = """
SELECT tenant_id, evidence ->> 'command' AS command FROM ops_alerts
WHERE status <> 'closed' AND kind = $1 AND evidence ->> 'command' IS NOT NULL ORDER BY tenant_id, opened_at
"""
_COLUMNS: Final = """
id, tenant_id, kind, subject, status, evidence, opened_at, last_seen_at, acked_at, acked_by, note, closed_at
"""
_LIST: Final = f"""
SELECT {_COLUMNS} FROM ops_alerts
WHERE ($1::text IS NULL OR tenant_id = $1 OR tenant_id IS NULL) AND ($2::text IS NULL OR status = $2)
  AND ($3::timestamptz IS NULL OR (opened_at, id) < ($3, $4))
ORDER BY opened_at DESC, id DESC LIMIT $5
"""  # noqa: S608 - our own constants
_ONE: Final = f"SELECT {_COLUMNS} FROM ops_alerts WHERE id = $1"  # noqa: S608 - our own constants
_ACKNOWLEDGE: Final = f"""
UPDATE ops_alerts SET status = 'acked', acked_at = now(), acked_by = $2, note = $3
WHERE id = $1 AND status <> 'closed' RETURNING {_COLUMNS}
"""  # noqa: S608 - our own constants
# The status is the index's condition, which holds no closed row. What was seen later than now was seen by a clock that was ahead;
# a cause that is still there raises its alert again.
_CLOSE_UNSEEN: Final = """
UPDATE ops_alerts SET status = 'closed', closed_at = now()
WHERE status <> 'closed' AND kind = $1 AND (last_seen_at < $2 OR last_seen_at > clock_timestamp())
"""
_OPEN: Final = (
    "SELECT kind, count(*) AS alerts FROM ops_alerts WHERE status <> 'closed' AND status = 'open' GROUP BY kind"
)


class AlertUnknown(Rejected):
    """There is no alert of that id on this edge."""

    code = "unknown_alert"


class AlertClosed(Rejected):
    """The alert is closed: its cause is gone, and there is nothing left to acknowledge."""

    code = "alert_closed"


class AfterAlert(NamedTuple):
    opened_at: Timestamp
    id: UUID


class OpsAlert(msgspec.Struct, frozen=True):
    """`evidence` is what the service that raised it knew. One without `tenant_id` is about the edge box itself."""

    id: UUID
    tenant_id: str | None
    kind: str
    subject: str
    status: Status
    evidence: dict[str, Any]
    opened_at: datetime
    last_seen_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    note: str | None
    closed_at: datetime | None


async def raise_alert(
    connection: Connection,
    kind: Kind,
    subject: str,
    dedupe_key: str,
    evidence: Mapping[str, object],
    tenant_id: str | None = None,
) -> None:
    """Open it, or show that its cause is still there. An alert about the edge box itself has no tenant."""
    await connection.execute(_RAISE, tenant_id, kind, subject, dedupe_key, evidence)


def about_picture(media_id: UUID, device_id: str, session_id: UUID | None, **more: object) -> dict[str, object]:
    """Evidence by which a page can lead to the picture's session and station."""
    known: dict[str, object] = {"media_id": str(media_id), "device_id": device_id}
    return known | ({"session_id": str(session_id)} if session_id else {}) | more


async def close_alert(connection: Connection, dedupe_key: str, tenant_id: str | None = None) -> None:
    """The cause is gone."""
    await connection.execute(_CLOSE, tenant_id, dedupe_key)


async def close_unseen(connection: Connection, kind: Kind, since: datetime) -> int:
    """Of a kind whose cause is seen again and again as long as it is there: those that were not, are over."""
    return int((await connection.execute(_CLOSE_UNSEEN, kind, since)).rpartition(" ")[2])


async def open_alerts(connection: Connection, kind: Kind) -> list[tuple[str | None, str]]:
    """Tenant and key of every alert of this kind that is not closed."""
    return [(row["tenant_id"], row["dedupe_key"]) for row in await connection.fetch(_OF_KIND, kind)]


async def open_commands(connection: Connection, kind: Kind) -> dict[str | None, str]:
    """By tenant, the command that mends the cause of its alert of this kind, as far as alerts name one."""
    return {row["tenant_id"]: row["command"] for row in await connection.fetch(_COMMANDS, kind)}


async def list_alerts(
    connection: Connection, *, tenant_id: str | None, status: Status | None, after: AfterAlert | None, limit: int
) -> list[OpsAlert]:
    """The newest first: a tenant's and those of the edge box itself, or all."""
    opened_at, last_id = after or (None, None)
    stored = None if status is None else _STORED[status]
    rows = await connection.fetch(_LIST, tenant_id, stored, opened_at, last_id, limit)
    return [_alert(row) for row in rows]


async def acknowledge_alert(connection: Connection, alert_id: UUID, *, by: str, note: str) -> OpsAlert:
    """A person knows. The alert stays until its cause is gone; whoever does it again replaces name and note."""
    row = await connection.fetchrow(_ACKNOWLEDGE, alert_id, by, note)
    if row is not None:
        return _alert(row)
    if await connection.fetchrow(_ONE, alert_id) is None:
        raise AlertUnknown(f"there is no alert {alert_id}")
    raise AlertClosed(f"the alert {alert_id} is closed")


async def open_by_kind(connection: Connection) -> dict[str, int]:
    """How many nobody has acknowledged."""
    return {row["kind"]: row["alerts"] for row in await connection.fetch(_OPEN)}


def _alert(row: asyncpg.Record) -> OpsAlert:
    return OpsAlert(
        row["id"],
        row["tenant_id"],
        row["kind"],
        row["subject"],
        _SHOWN[row["status"]],
        msgspec.json.decode(row["evidence"]),
        row["opened_at"],
        row["last_seen_at"],
        row["acked_at"],
        row["acked_by"],
        row["note"],
        row["closed_at"],
    )

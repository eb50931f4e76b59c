"""One row for a tenant in every table that has tenants, in which every text, id and figure betrays whose it is."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

import asyncpg
import msgspec

from farmiq.kit.postgres import Connection

HOUR_AT: Final = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
FIGURES: Final = {"zebra": 4711.25, "okapi": 8150.75}
"""What each tenant measured."""
_NAMES: Final = UUID("018f0000-0000-7000-8000-000000000000")

# What `id` is in a table where other tables name it.
_IDS: Final = {
    "media_objects": "media_id", "weight_sessions": "session_id", "inference_jobs": "job_id",
    "inference_results": "result_id", "ops_alerts": "alert_id", "ingress_rejected": "rejected_id",
}  # fmt: skip
# Words of closed lists, without which a row is shown by nobody.
_WORDS: Final[dict[tuple[str, str], Any]] = {
    ("media_objects", "state"): "stored", ("media_objects", "mime_type"): "image/jpeg",
    ("inference_jobs", "state"): "failed", ("media_transfers", "state"): "failed",
    ("weight_sessions", "status"): "finalized", ("sync_outbox", "status"): "dlq", ("ops_alerts", "status"): "open",
    ("analytics_kpis", "scope"): "barn", ("analytics_anomalies", "kind"): "drift",
    ("analytics_anomalies", "severity"): "warning", ("streams", "received"): [asyncpg.Range(1, 2), asyncpg.Range(4, 5)],
    ("streams", "lost"): [asyncpg.Range(3, 4)],
    ("telemetry_agg", "window"): "1h", ("telemetry_raw", "seq"): 1, ("stream_losses", "first_seq"): 3,
    ("stream_losses", "last_seq"): 3, ("analytics_kpis", "batch_id"): "", ("analytics_anomalies", "evidence"): [],
    **{("analytics_kpis", part): None for part in ("weights", "growth", "vision", "comfort", "data")},
    ("device_liveness", "status_json"): None, ("devices", "kind"): "node",
    ("telemetry_agg", "sensor"): "", ("inference_results", "predicted_size"): None,
    ("media_objects", "expires_at"): None, ("media_objects", "refused_at"): None, ("media_objects", "object_removed_at"): None,
    ("media_objects", "refused_reason"): None, ("devices", "revoked_at"): None, ("analytics_anomalies", "cleared_at"): None,
    ("weight_sessions", "incomplete_since"): None, ("weight_sessions", "look_at"): None, ("media_objects", "missing_since"): None,
    ("device_liveness", "reported_state"): "online", ("sync_state", "paused_until"): None,
}  # fmt: skip
_COLUMNS: Final = """
SELECT pg_class.relname AS table_name, attname AS name, format_type(atttypid, NULL) AS type,
       atthasdef OR attidentity <> '' AS is_made
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
 WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND attgenerated = ''
       AND EXISTS (SELECT FROM pg_attribute AS own
                    WHERE own.attrelid = pg_class.oid AND own.attname = ANY ('{tenant_id,session_id}') AND NOT own.attisdropped)
 ORDER BY pg_class.relname, attnum
"""
_RULES: Final = """
SELECT conrelid::regclass AS table_name, quote_ident(conname) AS name
  FROM pg_constraint WHERE contype IN ('c', 'f') AND conparentid = 0 AND connamespace = 'public'::regnamespace AND conislocal
"""


def id_of(tenant_id: str, name: str) -> UUID:
    return uuid5(_NAMES, f"{tenant_id}/{name}")


def text_of(tenant_id: str, column: str) -> str:
    return tenant_id if column == "tenant_id" else f"{column.replace('_', '-')}-{tenant_id}"


async def fill(connection: Connection, *tenant_ids: str, without: Collection[str] = ()) -> list[str]:
    """The names of the tables. Rules about single rows are dropped: this is a database of a test."""
    for rule in await connection.fetch(_RULES):
        await connection.execute(f"ALTER TABLE {rule['table_name']} DROP CONSTRAINT IF EXISTS {rule['name']} CASCADE")
    for parent in ("telemetry_raw", "device_events"):
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", parent):
            await connection.execute(f"SELECT ensure_month_partition('{parent}', $1)", HOUR_AT.date())
    tables: dict[str, list[asyncpg.Record]] = {}
    for column in await connection.fetch(_COLUMNS):
        if column["table_name"] not in without:
            tables.setdefault(column["table_name"], []).append(column)
    for table, columns in tables.items():
        for tenant_id in tenant_ids:
            cells = {row["name"]: _cell(tenant_id, table, row) for row in columns if not _is_left_out(table, row)}
            names = ", ".join(f'"{name}"' for name in cells)
            places = ", ".join(f"${number}" for number in range(1, len(cells) + 1))
            await connection.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", *cells.values())  # noqa: S608 - names of our own
    return list(tables)


async def rows_of(connection: Connection, tenant_id: str, *tables: str) -> set[str]:
    """The tenant's rows, as text."""
    found = [
        await connection.fetch(f"SELECT own::text FROM {table} AS own WHERE tenant_id = $1", tenant_id)  # noqa: S608 - as above
        for table in tables
        if await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table)
    ]
    return {row[0] for rows in found for row in rows}


def _is_left_out(table: str, column: asyncpg.Record) -> bool:
    is_text = column["type"] in ("text", "uuid")
    return bool(column["is_made"]) and not is_text and (table, column["name"]) not in _WORDS


def _cell(tenant_id: str, table: str, column: asyncpg.Record) -> Any:
    name, kind = column["name"], column["type"]
    if (table, name) in _WORDS:
        return _WORDS[table, name]
    text = text_of(tenant_id, name)
    examples: dict[str, Any] = {
        "uuid": id_of(tenant_id, _IDS.get(table, f"{table}_id") if name == "id" else name),
        "text": text,
        "timestamp with time zone": HOUR_AT + timedelta(hours=name.endswith(("end_at", "finished_at"))),
        "date": HOUR_AT.date(),
        "double precision": FIGURES[tenant_id],
        "boolean": False,
        "bytea": text.encode(),
        "json": msgspec.json.encode({"text": text}).decode(),
        "jsonb": {"text": text},
    }
    return examples.get(kind, 1)

"""Corruptions of a farm's databases, made by a machine: each table of the promise, each thing that can be done to a row of it."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import asyncpg

Tier = Literal["edge", "cloud"]

TIERS: Final[tuple[Tier, Tier]] = ("edge", "cloud")


@dataclass(frozen=True)
class Table:
    """`rows`: which of them are corrupted. `key`: what a row is known by, made anew for an inserted one. `subject`: SQL for what
    a finding should name, `seq` for the sequence within it. `others`: tables that go with a row of this one."""

    tier: Tier
    name: str
    rows: str
    key: Mapping[str, str]
    alters: Mapping[str, str]
    time: str | None
    subject: str
    seq: str | None = None
    label: str = ""
    swapped: str | None = None
    operations: tuple[str, ...] = ("delete", "insert")
    others: tuple[str, ...] = ()
    needs_deep: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Corruption:
    table: Table
    operation: str
    statements: tuple[str, ...]
    chosen: str
    """SQL for the rows that are chosen: `subject` and `seq`, before anything is changed."""
    needs_deep: bool = field(default=False)

    @property
    def name(self) -> str:
        return f"{self.table.tier} {self.table.label or self.table.name}: {self.operation}"


def _measured(tier: Tier) -> Iterator[Table]:
    own = "tenant_id = 'demo'"
    yield Table(
        tier, "telemetry_raw", f"{own} AND stream_id IS NOT NULL AND seq > 1", {"id": "gen_random_uuid()"},
        {
            "metric_value": "metric_value + 1", "metric_type": "metric_type || 'x'", "unit": "unit || 'x'",
            "sensor": "coalesce(sensor, '') || 'x'", "seq": "seq + 1000000", "device_id": "'node-x'",
        },
        "occurred_at", "device_id", "seq", "rows of streams", "metric_value",
        needs_deep=frozenset({"metric_value", "metric_type", "unit", "sensor", "re-date", "swap"}),
    )  # fmt: skip
    yield Table(
        tier, "telemetry_raw", f"{own} AND stream_id IS NULL", {"id": "gen_random_uuid()"},
        {
            "metric_value": "metric_value + 1", "metric_type": "metric_type || 'x'", "unit": "unit || 'x'",
            "barn_id": "'barn-x'",
        },
        "occurred_at", "id::text", None, "single readings", "metric_value",
    )  # fmt: skip
    for window, label in (("1m", "minutes"), ("1h", "hours"), ("1d", "days")):
        changed = {
            "count": "count + 1", "sum_value": "sum_value + 10", "min_value": "min_value - 1",
            "max_value": "max_value + 1", "sensor": "sensor || 'x'", "metric_type": "metric_type || 'x'",
        }  # fmt: skip
        yield Table(
            tier, "telemetry_agg", f"""{own} AND "window" = '{window}'""",
            {"id": "gen_random_uuid()", "sensor": "sensor || 'y'"}, changed,
            "bucket_start_at", "device_id", None, f"aggregates of {label}",
            "sum_value" if window == "1h" else None,
            needs_deep=frozenset({*changed, "delete", "insert", "re-date", "swap"} if window == "1m" else ()),
        )  # fmt: skip
    yield Table(
        tier, "streams", f"{own} AND device_id = 'probe-1'", {"stream_id": "gen_random_uuid()"},
        {
            "received": "received - int8multirange(int8range(5, 8))",
            "received, more": "received + int8multirange(int8range(500, 510))",
            "lost": "'{}'", "lost, more": "lost + int8multirange(int8range(700, 710))",
            "device_id": "'node-x'",
        },
        None, "device_id", operations=("delete",), others=("stream_content",),
    )  # fmt: skip
    yield Table(
        tier, "stream_content", f"{own}", {}, {"digest": "digest # 1", "samples": "samples + 1"}, None,
        "(SELECT device_id FROM streams WHERE (tenant_id, stream_id) = (stream_content.tenant_id, stream_content.stream_id))",
        operations=(), needs_deep=frozenset({"samples"}),
    )  # fmt: skip
    yield Table(
        tier, "stream_losses", own, {"event_id": "gen_random_uuid()", "first_seq": "900", "last_seq": "905"},
        {
            "last_seq": "last_seq - 1", "count": "count + 1", "reason": "'damaged'",
            "first_ts": "coalesce(first_ts, dropped_at) - interval '1 hour'", "device_id": "'node-x'",
        },
        "dropped_at", "event_id::text",
    )  # fmt: skip
    yield Table(
        tier, "station_losses", own, {"event_id": "gen_random_uuid()"},
        {"count": "count + 1", "pictures": "pictures + 1", "reason": "'too_old'", "is_count_exact": "NOT is_count_exact"},
        "dropped_at", "event_id::text",
    )  # fmt: skip


def _weighed(tier: Tier) -> Iterator[Table]:
    is_edge = tier == "edge"
    own = "tenant_id = 'demo'"
    yield Table(
        tier, "weight_sessions", f"{own} AND status = 'finalized'", {"id": "gen_random_uuid()"},
        {
            "batch_id": "'batch-x'", "initial_weight_kg": "initial_weight_kg + 1",
            "final_weight_kg": "final_weight_kg + 1", "image_count": "image_count + 1",
            "inference_result_id": "gen_random_uuid()", "end_at": "end_at + interval '1 minute'", "status": "'cancelled'",
        },
        "start_at", "id::text", others=("session_weights", "session_pictures", "session_operations") if is_edge else (),
    )  # fmt: skip
    yield Table(
        tier, "session_weights" if is_edge else "recorded_weights",
        f"{own} AND session_id IS NOT NULL", {"event_id": "gen_random_uuid()"}, {"weight_kg": "weight_kg + 1"},
        "occurred_at", "event_id::text", None, "recorded weights", "weight_kg",
    )  # fmt: skip
    yield Table(
        tier, "session_pictures" if is_edge else "captured_images",
        f"{own} AND session_id IS NOT NULL AND {'announced_at' if is_edge else 'occurred_at'} IS NOT NULL",
        {"media_id": "gen_random_uuid()"}, {} if is_edge else {"session_id": "gen_random_uuid()"},
        "announced_at" if is_edge else "occurred_at", "media_id::text", None, "pictures that were taken",
    )  # fmt: skip
    yield Table(
        tier, "inference_results", own, {"id": "gen_random_uuid()"},
        {
            "predicted_weight_kg": "predicted_weight_kg + 1", "confidence": "confidence / 2", "predicted_size": "'x'",
            "model_version": "'x'", "media_id": "gen_random_uuid()",
        },
        "occurred_at", "id::text", swapped="predicted_weight_kg",
    )  # fmt: skip
    key = {"id": "gen_random_uuid()", "object_key": "object_key || 'x'"}
    yield Table(
        tier, "media_objects", f"{own} AND state = 'stored' AND session_id IS NOT NULL", key,
        {"sha256": "repeat('0', 64)", "session_id": "gen_random_uuid()", "session_id, none": "NULL"},
        "captured_at", "id::text",
    )  # fmt: skip


def tables() -> list[Table]:
    hours = Table(
        "cloud", "analytics_hours", "tenant_id = 'demo'", {"sensor": "sensor || 'y'"},
        {
            "count": "count + 1", "mean_value": "mean_value + 1", "min_value": "min_value - 1",
            "max_value": "max_value + 1", "metric_type": "metric_type || 'x'",
        },
        "hour_at", "device_id",
    )  # fmt: skip
    devices = Table(
        "edge", "devices", "tenant_id = 'demo' AND device_id = 'probe-1'", {}, {}, None, "device_id",
        operations=("delete",),
    )  # fmt: skip
    return [*(table for tier in TIERS for table in (*_measured(tier), *_weighed(tier))), hours, devices]


def corruptions(seed: int) -> list[Corruption]:
    return [corruption for table in tables() for corruption in _of(table, seed)]


def _of(table: Table, seed: int) -> Iterator[Corruption]:
    time = {"re-date": f"{table.time} + interval '3 days'"} if table.time else {}
    for operation in table.operations:
        pick = _pick(table, seed, operation)
        statement = f"DELETE FROM {table.name} WHERE {_is_chosen(table)}" if operation == "delete" else _insert(table)  # noqa: S608 - constants of this file
        yield _corruption(table, operation, (statement,), pick)
    for operation, expression in {**table.alters, **time}.items():
        column = table.time if operation == "re-date" else operation.partition(",")[0]
        extra = ", bucket_end_at = bucket_end_at + interval '3 days'" if column == "bucket_start_at" else ""
        statement = f"UPDATE {table.name} SET {column} = {expression}{extra} WHERE {_is_chosen(table)}"  # noqa: S608 - as above
        yield _corruption(table, operation, (statement,), _pick(table, seed, operation))
    if table.swapped:
        value = table.swapped
        swap = f"""
            UPDATE {table.name} AS known SET {value} = other.value
              FROM (SELECT one.part, one.place, two.value FROM chosen AS one JOIN chosen AS two ON one.number <> two.number)
                   AS other
             WHERE (known.tableoid, known.ctid) = (other.part, other.place)
        """  # noqa: S608 - constants of this file
        yield _corruption(table, "swap", (swap,), _pick(table, seed, "swap", rows=2))


def _corruption(table: Table, operation: str, statements: tuple[str, ...], pick: str) -> Corruption:
    return Corruption(table, operation, statements, pick, operation in table.needs_deep)


def _pick(table: Table, seed: int, operation: str, rows: int = 1) -> str:
    """Rows of the table, chosen by the seed; of two that are swapped, with other values."""
    salt = hashlib.sha256(f"{seed}/{table.tier}/{table.label or table.name}/{operation}".encode()).hexdigest()[:8]
    seq = table.seq or "NULL::bigint"
    value = table.swapped or "NULL::float8"
    distinct = f"DISTINCT ON ({value})" if rows > 1 else ""
    return f"""
        SELECT row_number() OVER () AS number, * FROM (
          SELECT {distinct} tableoid AS part, ctid AS place, {table.subject} AS subject,
                 {seq} AS seq, {value} AS value
            FROM {table.name} WHERE {table.rows}
           ORDER BY {f"{value}," if rows > 1 else ""} md5(ctid::text || tableoid::text || '{salt}') LIMIT {rows}) AS picked
    """  # noqa: S608 - constants of this file


def _is_chosen(table: Table) -> str:
    return "(tableoid, ctid) IN (SELECT part, place FROM chosen)"


def _insert(table: Table) -> str:
    return f"INSERT INTO {table.name} ({{columns}}) SELECT {{values}} FROM {table.name} WHERE {_is_chosen(table)}"  # noqa: S608 - constants of this file


_COLUMNS: Final = """
    SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
     ORDER BY attnum
"""


class Corruptor:
    """Does one corruption at a time, and undoes it."""

    def __init__(self, connections: "Mapping[Tier, asyncpg.Connection[asyncpg.Record]]") -> None:
        self._connections = connections

    async def corrupt(self, corruption: Corruption) -> list[tuple[str, int | None]]:
        """What a finding should name, with the sequence; empty where there is no such row."""
        connection, table = self._connections[corruption.table.tier], corruption.table
        await connection.execute("DROP TABLE IF EXISTS chosen")
        await connection.execute(f"CREATE TEMP TABLE chosen AS {corruption.chosen}")
        rows = await connection.fetch("SELECT subject, seq FROM chosen ORDER BY number")
        if len(rows) < (2 if corruption.operation == "swap" else 1):
            return []
        for name in (table.name, *table.others):
            await connection.execute(f"DROP TABLE IF EXISTS saved_{name}")
            await connection.execute(f"CREATE TEMP TABLE saved_{name} AS SELECT * FROM {name}")  # noqa: S608 - ours
        columns = await self._columns(connection, table.name)
        quoted = {name: f'"{name}"' for name in columns}
        values = ", ".join(table.key.get(name, quoted[name]) for name in columns)
        for statement in corruption.statements:
            await connection.execute(
                statement.replace("{columns}", ", ".join(quoted.values())).replace("{values}", values)
            )
        if corruption.operation == "insert":
            # A new row has a name of its own, unless it is one more of a sequence.
            named = f"SELECT {table.subject} AS subject, {table.seq or 'NULL::bigint'} AS seq FROM"
            saved = f"{named} saved_{table.name} AS {table.name}"
            rows = await connection.fetch(f"{named} {table.name} EXCEPT {saved}") or rows
        return [(row["subject"], row["seq"]) for row in rows]

    async def undo(self, corruption: Corruption) -> None:
        connection, table = self._connections[corruption.table.tier], corruption.table
        async with connection.transaction():
            for name in (table.name, *table.others):
                columns = ", ".join(f'"{column}"' for column in await self._columns(connection, name))
                saved = f"SELECT {columns} FROM saved_{name}"  # noqa: S608 - ours
                await connection.execute(f"DELETE FROM {name} WHERE tenant_id = 'demo'")  # noqa: S608 - ours
                await connection.execute(f"INSERT INTO {name} ({columns}) {saved} WHERE tenant_id = 'demo'")

    async def _columns(self, connection: "asyncpg.Connection[asyncpg.Record]", table: str) -> list[str]:
        return [row["attname"] for row in await connection.fetch(_COLUMNS, table)]

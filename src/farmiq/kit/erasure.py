"""All rows and objects of one tenant leave a tier, and a record of it stays in `tenant_erasures`.

Which tables have rows of a tenant is asked of the catalogue, so a table that comes later is not forgotten: each with a column
`tenant_id`. Rows go in steps, and each step counts what it deleted in the transaction that deletes it: the record is right
whenever the process dies, and the same call goes on where it ended.

Before that, whoever writes for the tenant has to be kept out, and what is on its way has to have passed: each tier has its own
way of that. A service may still write what it had read before. So the tables are gone through until nothing is found in a pass
that began after every transaction had ended that was open when the pass before it ended.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from graphlib import TopologicalSorter
from typing import Final, NamedTuple

import asyncpg
import msgspec
from msgspec import Struct

from farmiq.kit.postgres import Connection, storable
from farmiq.kit.s3 import ObjectStore

KEPT: Final = frozenset({"tenant_erasures", "edge_grants"})
"""What administrators did to a tenant, without anything of the tenant but its name."""
STEP_ROWS: Final = 5000
STEP_OBJECTS: Final = 500
PASSES_MAX: Final = 20
LOOK_SECONDS: Final = 0.1

_TABLES: Final = """
SELECT relname AS name, attname AS key FROM pg_class
  JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant_id' AND NOT attisdropped
 WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
"""
_REFERENCES: Final = """
SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent
  FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND connamespace = current_schema()::regnamespace
"""
_LEAVES: Final = """
SELECT relid::regclass::text FROM pg_partition_tree($1::regclass) WHERE isleaf
UNION SELECT $1::regclass::text FROM pg_class WHERE oid = $1::regclass AND relkind = 'r'
"""
_UNFINISHED: Final = "SELECT erasure_id FROM tenant_erasures WHERE tenant_id = $1 AND finished_at IS NULL"
_BEGIN: Final = """
INSERT INTO tenant_erasures (tenant_id, erased_by, reason) VALUES ($1, $2, $3)
ON CONFLICT (tenant_id) WHERE finished_at IS NULL DO NOTHING
"""
_ADD_OBJECTS: Final = """
UPDATE tenant_erasures SET objects = objects + $2, object_bytes = object_bytes + $3 WHERE erasure_id = $1
"""
_FINISH: Final = "UPDATE tenant_erasures SET finished_at = clock_timestamp() WHERE erasure_id = $1"
_RECORDS: Final = """
SELECT tenant_id, erased_by, reason, begun_at, finished_at, rows_by_table::text, objects, object_bytes, first_sample_at,
       last_sample_at
  FROM tenant_erasures WHERE $1::text IS NULL OR tenant_id = $1 ORDER BY begun_at DESC, erasure_id DESC
"""
_NEWEST: Final = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
_OLDEST_OPEN: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
# What the trigger of the outbox asks before an event that still waits may be deleted.
_NAME_TENANT: Final = "SELECT set_config('farmiq.erased_tenant', $1, false)"

OnStep = Callable[[str, int], None]
"""Called with what was deleted, and how many."""


class ErasureRecord(Struct, frozen=True, kw_only=True):
    """`finished_at` is null while it is under way, and when something was left: the same command goes on. Of a process that was
    killed, up to 500 objects may not be counted."""

    tenant_id: str
    erased_by: str
    reason: str
    begun_at: datetime
    finished_at: datetime | None
    rows_by_table: dict[str, int]
    objects: int
    object_bytes: int
    first_sample_at: datetime | None
    last_sample_at: datetime | None

    @property
    def rows(self) -> int:
        return sum(self.rows_by_table.values())


class Found(NamedTuple):
    """What a tier has of a tenant."""

    rows_by_table: dict[str, int]
    objects: int
    object_bytes: int


# --- The record ----------------------------------------------------------------------------------------------------------------


async def begin(connection: Connection, tenant_id: str, *, by: str, reason: str) -> int:
    """The id of a new record, or of the one that is unfinished."""
    await connection.execute(_BEGIN, tenant_id, storable(by), storable(reason))
    return int(await connection.fetchval(_UNFINISHED, tenant_id))


async def finish(connection: Connection, erasure_id: int) -> None:
    await connection.execute(_FINISH, erasure_id)


async def records(connection: Connection, tenant_id: str | None = None) -> list[ErasureRecord]:
    """The newest first."""
    rows = await connection.fetch(_RECORDS, tenant_id)
    return [
        ErasureRecord(**{**dict(row.items()), "rows_by_table": msgspec.json.decode(row["rows_by_table"])})
        for row in rows
    ]


# --- Rows ----------------------------------------------------------------------------------------------------------------------


async def tables_of_tenants(connection: Connection) -> list[str]:
    """Those that refer to others first."""
    names = {row["name"] for row in await connection.fetch(_TABLES)} - KEPT
    order = TopologicalSorter[str]({name: set() for name in names})
    for row in await connection.fetch(_REFERENCES):
        if {row["child"], row["parent"]} <= names and row["child"] != row["parent"]:
            order.add(row["parent"], row["child"])
    return list(order.static_order())


async def count_rows(connection: Connection, tenant_id: str) -> dict[str, int]:
    """By table, without those that have none."""
    counts = {
        table: await connection.fetchval(f'SELECT count(*) FROM "{table}" WHERE tenant_id = $1', tenant_id)  # noqa: S608 - names of the catalogue
        for table in sorted(await tables_of_tenants(connection))
    }
    return {table: count for table, count in counts.items() if count}


async def erase_rows(
    writer: Connection,
    reader: Connection,
    erasure_id: int,
    tenant_id: str,
    on_step: OnStep,
    *,
    patience_seconds: float,
) -> bool:
    """False when something still writes for the tenant, or has had a transaction open all the time. `reader` is a connection of
    its own, which walks over a table while `writer` deletes."""
    await writer.execute(_NAME_TENANT, tenant_id)
    for _ in range(PASSES_MAX):
        gone = 0
        for table in await tables_of_tenants(reader):
            for leaf in [row[0] for row in await reader.fetch(_LEAVES, table)]:
                gone += await _erase_leaf(writer, reader, erasure_id, tenant_id, table, leaf, on_step)
        if not gone:
            return True
        if not await _others_have_ended(reader, patience_seconds):
            return False
    return False


async def _erase_leaf(
    writer: Connection, reader: Connection, erasure_id: int, tenant_id: str, table: str, leaf: str, on_step: OnStep
) -> int:
    gone = 0
    try:
        async with reader.transaction(readonly=True):
            places = await reader.cursor(f"SELECT ctid FROM {leaf} WHERE tenant_id = $1", tenant_id)  # noqa: S608 - as above
            while page := await places.fetch(STEP_ROWS):
                deleted = await _erase_step(writer, erasure_id, tenant_id, table, leaf, [row[0] for row in page])
                gone += deleted
                on_step(table, deleted)
    except asyncpg.UndefinedTableError:
        return gone  # a month whose retention ended meanwhile
    return gone


async def _erase_step(
    writer: Connection, erasure_id: int, tenant_id: str, table: str, leaf: str, places: list[tuple[int, int]]
) -> int:
    # A place may have another row by now, of another tenant. A row that has moved is found by the next pass.
    measured_at = "occurred_at" if table == "telemetry_raw" else "NULL::timestamptz"
    step = f"""
        WITH gone AS (DELETE FROM {leaf} WHERE ctid = ANY ($2::tid[]) AND tenant_id = $3 RETURNING {measured_at} AS at),
        counted AS (SELECT count(*) AS rows, min(at) AS first_at, max(at) AS last_at FROM gone)
        UPDATE tenant_erasures
           SET rows_by_table = rows_by_table || jsonb_build_object($4::text, coalesce((rows_by_table ->> $4)::bigint, 0) + rows),
               first_sample_at = least(first_sample_at, first_at), last_sample_at = greatest(last_sample_at, last_at)
          FROM counted WHERE erasure_id = $1 RETURNING rows
    """  # noqa: S608 - as above
    while True:
        try:
            return int(await writer.fetchval(step, erasure_id, places, tenant_id, table))
        except asyncpg.DeadlockDetectedError:
            # A service that writes to the same rows, in another order, goes first.
            await asyncio.sleep(LOOK_SECONDS)


async def _others_have_ended(connection: Connection, patience_seconds: float) -> bool:
    """Every transaction that writes and is open now."""
    newest = await connection.fetchval(_NEWEST)
    deadline = time.monotonic() + patience_seconds
    while await connection.fetchval(_OLDEST_OPEN) < newest:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


# --- Objects -------------------------------------------------------------------------------------------------------------------


async def count_objects(objects: ObjectStore, bucket: str, prefixes: Sequence[str]) -> tuple[int, int]:
    """How many, and how many bytes."""
    count = size = 0
    for prefix in prefixes:
        async for one in objects.list_objects(bucket, prefix):
            count, size = count + 1, size + one.size_bytes
    return count, size


async def erase_objects(
    connection: Connection,
    objects: ObjectStore,
    bucket: str,
    prefixes: Sequence[str],
    erasure_id: int,
    on_step: OnStep,
) -> None:
    """Until a listing shows none. A store may pass over some while others are deleted."""
    for prefix in prefixes:
        while found := await _first(objects, bucket, prefix):
            await objects.delete_many(bucket, [key for key, _ in found])
            await connection.execute(_ADD_OBJECTS, erasure_id, len(found), sum(size for _, size in found))
            on_step("objects", len(found))


async def _first(objects: ObjectStore, bucket: str, prefix: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    async for one in objects.list_objects(bucket, prefix, page_size=STEP_OBJECTS):
        if not one.key.endswith("/"):  # the mark of a folder, which some stores show for one that was emptied
            found.append((one.key, one.size_bytes))
        if len(found) >= STEP_OBJECTS:
            break
    return found

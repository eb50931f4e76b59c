"""Row-level security: which tables a request reads, as whom, and that its role sees the tenants it named and nothing else."""

import asyncpg
import pytest

from farmiq.kit.database_roles import READ_POLICY
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from support.tenant_rows import fill

KEPT_BY_SERVICES = {
    "bus_users": "names of logins at the bus; only commands read it",
    "device_moves": "which edge a device belonged to before; only ingestion and commands read it",
    "device_owners": "which edge a device belongs to; only ingestion and commands read it",
    "discarded_letters": "routes of dead letters are the administrator's and move letters between queues: they read as the owner",
    "edge_answer_marks": "how far the answers to each edge had come, hour by hour; only ingestion reads it",
    "edge_answers": "the answers to each edge, numbered; only ingestion reads it",
    "edge_grants": "which tenants an edge may deliver for, and since when; only commands read it",
    "held_deliveries": "what an edge sends of another's devices; only ingestion and commands read it",
    "ingest_dedupe": "which events came before; only ingestion reads it",
    "ingress_dedupe": "which events came before; only the gateway reads it",
    "media_bytes_of_day": "a count for the limit at presign; no route shows it",
    "outbox_retired": "up to which answer of the cloud the outbox was emptied; only the forwarder reads it",
    "session_owners": "which edge a weigh session belongs to; only ingestion reads it",
    "stream_boots": "what batches are compared with; only the gateway reads it",
    "sync_batches": "the forwarder's reports; no route shows them",
}
"""Tables with tenants that no request reads: row-level security without a policy, so that only the owner sees rows."""
WITHOUT_TENANT = {
    "alembic_version": "the revision of the schema",
    "canary_receipts": "test messages, nobody's data",
    "cloud_identity": "one row for the tier",
    "dead_letter_actions": "what administrators did; read as the owner, like the letters",
    "dead_letters": "bodies as they came, some without a readable tenant; read as the owner, by administrators only",
    "device_owners_version": "one number for the tier",
    "drains": "whether the cloud takes events",
    "edge_identity": "one row for the tier",
    "empty_bus_queues": "one row for each service",
    "edge_tokens": "credentials, read by the guard before a tenant is known",
    "edges": "which tenants an edge may speak for, read by the guard",
    "job_runs": "housekeeping",
    "media_presign_pace": "how fast a device asks for uploads, read by the guard of uploads",
    "viewer_tokens": "credentials, read by the guard before a tenant is known",
}
"""Tables that no request reads as a tenant, and why they have no policy."""
_TABLES = """
SELECT relname, relrowsecurity,
       relkind = 'v' AND NOT coalesce('security_invoker=true' = ANY (reloptions), false) AS is_open_view,
       EXISTS (SELECT FROM pg_attribute WHERE attrelid = pg_class.oid AND attname = 'tenant_id') AS has_tenant,
       EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polname = $1 AND polcmd = 'r') AS is_read
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = ANY ('{r,p,v,m,f}') AND NOT relispartition
"""
_GRANTED = """
SELECT pg_class.relname, attname, privilege_type
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0,
       aclexplode(attacl) JOIN pg_roles ON grantee = pg_roles.oid
 WHERE relnamespace = 'public'::regnamespace AND rolname = reader_role()
UNION ALL
SELECT relname, NULL, privilege_type FROM pg_class, aclexplode(relacl) JOIN pg_roles ON grantee = pg_roles.oid
 WHERE relnamespace = 'public'::regnamespace AND rolname = reader_role()
"""


async def test_every_table_has_a_policy_or_a_reason_to_have_none(any_pool: Pool) -> None:
    tables = {row["relname"]: row for row in await any_pool.fetch(_TABLES, READ_POLICY)}
    without = {name for name, row in tables.items() if not row["is_read"]}
    named = KEPT_BY_SERVICES.keys() | WITHOUT_TENANT.keys()
    assert without <= named, "give it a policy in its migration, or a reason here"
    assert not named & (tables.keys() - without), "it has a policy: take its reason away"
    assert not [name for name, row in tables.items() if row["has_tenant"] and not row["relrowsecurity"]]
    assert not [name for name, row in tables.items() if row["is_open_view"]], (
        "a view reads as its owner: security_invoker"
    )


async def test_the_reader_may_read_what_has_a_policy_and_no_hash_and_nothing_else(any_pool: Pool) -> None:
    tables = {row["relname"]: row for row in await any_pool.fetch(_TABLES, READ_POLICY)}
    granted = await any_pool.fetch(_GRANTED)
    assert {row["privilege_type"] for row in granted} == {"SELECT"}
    assert {row["relname"] for row in granted} == {name for name, row in tables.items() if row["is_read"]}
    assert not [row["attname"] for row in granted if row["attname"] is None or "token_hash" in row["attname"]]
    is_owner = "SELECT EXISTS (SELECT FROM pg_class WHERE pg_get_userbyid(relowner) = reader_role())"
    assert not await any_pool.fetchval(is_owner)


async def test_a_query_without_its_tenant_clause_shows_no_other_tenant(any_pool: Pool) -> None:
    async with any_pool.acquire() as connection:
        tables = await fill(connection, "zebra", "okapi")
    readable = [row["relname"] for row in await any_pool.fetch(_TABLES, READ_POLICY) if row["is_read"]]
    seen: dict[str, list[int]] = {}
    for tenants in (("zebra",), ("okapi",), ("zebra", "okapi"), (ALL_TENANTS,), ("nobody",), ()):
        async with read_as(any_pool, *tenants) as connection:
            for table in set(tables) & set(readable):
                count = await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608 - of the catalogue
                seen.setdefault(table, []).append(count)
                if "tenant_id" in await _columns(connection, table):
                    strangers = await connection.fetch(
                        f"SELECT FROM {table} WHERE tenant_id <> ALL ($1)",
                        list(tenants),
                    )
                    assert not strangers or tenants == (ALL_TENANTS,), table
    assert len(seen) > 15
    assert {table: counts for table, counts in seen.items() if counts != [1, 1, 2, 2, 0, 0]} == {}


async def test_the_role_and_the_tenants_end_with_the_transaction(any_pool: Pool) -> None:
    async with any_pool.acquire() as connection:
        await fill(connection, "zebra", "okapi")
    with pytest.raises(asyncpg.DivisionByZeroError):
        async with read_as(any_pool, "zebra") as connection:
            await connection.execute("SELECT 1 / 0")
    for _ in range(3):
        async with read_as(any_pool, "zebra") as connection:
            assert await connection.fetchval("SELECT current_user") == await connection.fetchval("SELECT reader_role()")
        async with any_pool.acquire() as connection:
            assert await connection.fetchval("SELECT current_user = session_user")
            assert await connection.fetchval("SELECT count(*) FROM streams") == 2
            assert not await connection.fetchval("SELECT current_setting('farmiq.tenants', true)")


async def test_the_reader_writes_nothing_and_reads_no_partition_by_itself(any_pool: Pool) -> None:
    async with any_pool.acquire() as connection:
        await fill(connection, "zebra")
        part = await connection.fetchval(
            "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'telemetry_raw'::regclass"
        )
    for statement in (f"TABLE {part}", "TABLE alembic_version"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with read_as(any_pool, "zebra") as connection:
                await connection.fetch(statement)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with read_as(any_pool, "zebra") as connection:
            await connection.execute("DELETE FROM streams")


@pytest.mark.parametrize("tenants", [("a,b",), ("a", ALL_TENANTS), ("a", "b,*"), ("",), ("a'); RESET ROLE; --",)])
async def test_a_tenant_that_is_none_is_refused_before_it_becomes_a_setting(
    cloud_pool: Pool, tenants: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="ids of tenants"):
        async with read_as(cloud_pool, *tenants):
            pass


async def _columns(connection: Connection, table: str) -> set[str]:
    rows = await connection.fetch("SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass", table)
    return {row["attname"] for row in rows}

"""The roles that requests read and services write as: made where the owner may make them, and reported where they are missing."""

import secrets
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from farmiq.kit import tenant_reads
from farmiq.kit.database_roles import missing_roles, writers_of
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Connection, _warn_of_owner, open_pool
from farmiq.kit.tenant_reads import read_as
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres
from support.debian_root import DebianPostgres
from support.server_process import ServerProcess
from support.tenant_rows import fill

CLOUD = "farmiq.cloud.migrations"
REFUSED = (
    "SELECT FROM ingest_dedupe",
    "DELETE FROM edge_tokens",
    "UPDATE analytics_kpis SET tenant_id = ''",
    "INSERT INTO discarded_letters (tenant_id) VALUES ('')",
    "CREATE TABLE mine ()",
    "DROP TABLE telemetry_raw",
    "ALTER TABLE streams ADD COLUMN x int",
)


@pytest.fixture(scope="module", params=[15, 18])
def server(
    request: pytest.FixtureRequest, run_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Postgres]:
    if request.param == 18:
        yield request.getfixturevalue("_postgres")
        return
    if not Path("/usr/lib/postgresql/15/bin/postgres").exists():
        pytest.skip("no PostgreSQL 15 here: apt-get install postgresql-15")
    folder = tmp_path_factory.mktemp("postgres15")
    postgres = DebianPostgres(folder / "data", free_port(), secrets.token_urlsafe(16), is_throwaway=True, version=15)
    process = ServerProcess(postgres, run_folder, folder / "log")
    process.start()
    yield postgres
    process.stop()


async def database_of(server: Postgres, abilities: str) -> str:
    """A database whose owner was made by hand, by an administrator who knows nothing of a reader."""
    name, password = f"o{secrets.token_hex(6)}", secrets.token_urlsafe(16)
    await as_superuser(server, f"CREATE ROLE {name} LOGIN {abilities} PASSWORD '{password}'")
    await as_superuser(server, f"CREATE DATABASE {name} OWNER {name}")
    return server.url(name, password, name)


async def as_superuser(server: Postgres, statements: str) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute(statements)
    await connection.close()


async def with_all_roles(server: Postgres) -> str:
    url = await database_of(server, "")
    await migrate(url, CLOUD)
    await as_superuser(server, "\n".join(await role_sql(url)))
    await migrate(url, CLOUD)
    return url


async def store_sample(connection: Connection, tenant_id: str) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    await connection.execute("SELECT ensure_month_partition('telemetry_raw', $1)", at.date())
    columns = ["id", "tenant_id", "farm_id", "barn_id", "device_id", "occurred_at", "metric_type", "metric_value"]
    row = (uuid4(), tenant_id, "f", "b", "d", at, "t", 1.0)
    await connection.copy_records_to_table("telemetry_raw", records=[row], columns=columns)


async def seen_by_zebra(url: str) -> tuple[int, bool]:
    """Rows without a tenant clause, and whether the log complained."""
    tenant_reads._warn_once.cache_clear()
    with capture_logs() as logs:
        async with await open_pool(url, service="test") as pool:
            for _ in range(2):
                async with read_as(pool, "zebra") as connection:
                    rows = await connection.fetchval("SELECT count(*) FROM streams")
    complaints = [line for line in logs if line["event"] == "row_security_skipped"]
    assert len(complaints) < 2, "once is enough"
    return rows, bool(complaints)


async def filled(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.set_type_codec("jsonb", encoder=lambda _: "{}", decoder=str, schema="pg_catalog")
    await fill(connection, "zebra", "okapi")
    await connection.close()


async def role_sql(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return await missing_roles(connection, CLOUD)
    finally:
        await connection.close()


async def test_an_owner_who_may_make_roles_gets_the_role_with_the_migration(server: Postgres) -> None:
    url = await database_of(server, "CREATEROLE")
    await migrate(url, CLOUD)
    assert not [one for one in await role_sql(url) if "_reader" in one]
    await filled(url)
    assert await seen_by_zebra(url) == (1, False)


async def test_a_plain_owner_migrates_and_reads_and_is_told_what_an_administrator_runs(server: Postgres) -> None:
    url = await database_of(server, "")
    await migrate(url, CLOUD)
    await filled(url)
    assert await seen_by_zebra(url) == (2, True)
    statements = await role_sql(url)
    assert len(statements) == 2 * (1 + len(writers_of(CLOUD))), "each is made, and given to the owner"
    await as_superuser(server, "\n".join(statements))
    assert await seen_by_zebra(url) == (2, True), "nothing is granted yet, and queries work on"
    await migrate(url, CLOUD)
    assert await role_sql(url) == []
    assert await seen_by_zebra(url) == (1, False)


async def test_a_service_stores_with_copy_and_may_do_nothing_to_the_tables_of_another(server: Postgres) -> None:
    url = await with_all_roles(server)
    async with await open_pool(url, service="cloud-telemetry-service") as pool, pool.acquire() as connection:
        assert await connection.fetchval("SELECT current_user = writer_role('cloud-telemetry-service')")
        await store_sample(connection, "zebra")
        assert await connection.fetchval("SELECT count(*) FROM telemetry_raw") == 1, "of all tenants"
        for statement in REFUSED:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)


async def test_a_request_reads_its_tenant_only_on_the_connection_of_a_service_which_stays_what_it_was(
    server: Postgres,
) -> None:
    url = await with_all_roles(server)
    await filled(url)
    async with await open_pool(url, service="cloud-telemetry-service", size_max=1) as pool:
        for _ in range(2):
            async with read_as(pool, "zebra") as connection:
                assert await connection.fetchval("SELECT count(*) FROM streams") == 1
                assert await connection.fetchval("SELECT current_user = reader_role()")
            assert await pool.fetchval("SELECT current_user = writer_role('cloud-telemetry-service')")
            assert await pool.fetchval("SELECT count(*) FROM streams") == 2


async def test_a_service_makes_and_drops_the_months_of_its_own_tables_and_of_no_others(server: Postgres) -> None:
    url = await with_all_roles(server)
    month = date(2020, 5, 1)
    async with await open_pool(url, service="cloud-telemetry-service", size_max=1) as pool:
        made = await pool.fetchval("SELECT ensure_month_partition('telemetry_raw', $1)::text", month)
        assert made == "telemetry_raw_2020_05"
        async with await open_pool(url, service="cloud-media-store") as other:
            for refused in (made, "ingest_dedupe_default"):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match=f"may not drop {refused}"):
                    await other.execute("SELECT drop_partition($1::text::regclass)", refused)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not drop streams"):
            await pool.execute("SELECT drop_partition('streams')")
        await pool.execute("SELECT drop_partition($1::text::regclass)", made)
        assert await pool.fetchval("SELECT to_regclass('telemetry_raw_2020_05') IS NULL")


async def test_what_the_code_no_longer_says_is_taken_away_with_the_next_migration(server: Postgres) -> None:
    url = await with_all_roles(server)
    connection = await asyncpg.connect(url)
    role = await connection.fetchval("SELECT quote_ident(writer_role('cloud-media-store'))")
    await connection.execute(f"GRANT SELECT, DELETE ON edges TO {role}; REVOKE INSERT ON media_objects FROM {role}")
    await connection.execute("GRANT EXECUTE ON FUNCTION drop_partition(regclass) TO PUBLIC")
    await migrate(url, CLOUD)
    able = "SELECT has_table_privilege(writer_role('cloud-media-store'), $1, $2)"
    asked = (("edges", "SELECT"), ("edges", "DELETE"), ("media_objects", "INSERT"))
    assert [await connection.fetchval(able, *one) for one in asked] == [True, False, True]
    everybody = "SELECT has_function_privilege('pg_monitor', 'drop_partition(regclass)', 'EXECUTE')"
    assert not await connection.fetchval(everybody)
    await connection.close()


async def test_without_roles_a_service_works_as_the_owner_and_says_so_once(server: Postgres) -> None:
    url = await database_of(server, "")
    await migrate(url, CLOUD)
    _warn_of_owner.cache_clear()
    with capture_logs() as logs:
        async with (
            await open_pool(url, service="cloud-telemetry-service", size_max=2) as pool,
            pool.acquire() as connection,
            pool.acquire() as second,
        ):
            await store_sample(connection, "zebra")
            assert await second.fetchval("SELECT count(*) FROM edges") == 0
    assert [line["event"] for line in logs] == ["service_role_skipped"]


async def test_the_owner_does_as_before_and_other_roles_need_to_say_whose_rows(server: Postgres) -> None:
    url = await database_of(server, "CREATEROLE")
    await migrate(url, CLOUD)
    await filled(url)
    connection = await asyncpg.connect(url)
    assert await connection.fetchval("SELECT count(*) FROM streams") == 2
    columns = ["tenant_id", "batch_id", "received_at"]
    row = ("zebra", "b", await connection.fetchval("SELECT now()"))
    assert await connection.copy_records_to_table("sync_batches", records=[row], columns=columns) == "COPY 1"
    board = f"g{secrets.token_hex(6)}"
    await connection.execute(f"CREATE ROLE {board} NOLOGIN")
    await connection.execute(f"GRANT SELECT ON streams TO {board}; GRANT INSERT ON streams TO {board}")
    await connection.execute(f"GRANT {board} TO current_user")
    await connection.execute(f"SET ROLE {board}")
    assert await connection.fetchval("SELECT count(*) FROM streams") == 0
    await connection.execute("SET farmiq.tenants = '*'")
    assert await connection.fetchval("SELECT count(*) FROM streams") == 2
    # Why the services' own roles have BYPASSRLS: see decision 25.
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="COPY FROM not supported with row-level security"):
        await connection.copy_records_to_table("streams", records=[("zebra",)], columns=["tenant_id"])
    await connection.close()

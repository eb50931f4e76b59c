"""The role that requests read as: it is made where the owner may make it, and elsewhere its absence is reported."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from structlog.testing import capture_logs

from farmiq.kit import tenant_reads
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import open_pool
from farmiq.kit.tenant_reads import missing_role, read_as
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres
from support.debian_root import DebianPostgres
from support.server_process import ServerProcess
from support.tenant_rows import fill

CLOUD = "farmiq.cloud.migrations"


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


async def role_sql(url: str) -> str | None:
    connection = await asyncpg.connect(url)
    try:
        return await missing_role(connection)
    finally:
        await connection.close()


async def test_an_owner_who_may_make_roles_gets_the_role_with_the_migration(server: Postgres) -> None:
    url = await database_of(server, "CREATEROLE")
    await migrate(url, CLOUD)
    assert await role_sql(url) is None
    await filled(url)
    assert await seen_by_zebra(url) == (1, False)


async def test_a_plain_owner_migrates_and_reads_and_is_told_what_an_administrator_runs(server: Postgres) -> None:
    url = await database_of(server, "")
    await migrate(url, CLOUD)
    await filled(url)
    assert await seen_by_zebra(url) == (2, True)
    statements = await role_sql(url)
    assert statements is not None
    await as_superuser(server, statements)
    assert await seen_by_zebra(url) == (2, True), "nothing is granted yet, and queries work on"
    await migrate(url, CLOUD)
    assert await role_sql(url) is None
    assert await seen_by_zebra(url) == (1, False)


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
    # Why the services that store measurements have no roles of their own yet: see decision 21.
    with pytest.raises(asyncpg.FeatureNotSupportedError, match="COPY FROM not supported with row-level security"):
        await connection.copy_records_to_table("streams", records=[("zebra",)], columns=["tenant_id"])
    await connection.close()

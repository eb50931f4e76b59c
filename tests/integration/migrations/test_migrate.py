"""What `migrate` promises, on a real server: once, whole, behind one lock, and without telling secrets."""

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from farmiq.kit.errors import FarmiqError
from farmiq.kit.migrations import (
    LOCK_KEY,
    DatabaseRefused,
    MigrationBusy,
    RevisionFailed,
    RevisionInterrupted,
    SchemaUnknown,
    migrate,
)
from farmiq.kit.postgres import DatabaseAway
from support.postgres import NewDatabase
from support.waiting import eventually

EDGE = "farmiq.edge.migrations"
CLOUD = "farmiq.cloud.migrations"


def revisions(tier: str, package: str) -> list[str]:
    """One for each file, in the order of their numbers."""
    names = sorted(one.name for one in (files(package) / "versions").iterdir() if one.name.endswith(".py"))
    return [f"{tier}_{name[:4]}" for name in names]


EDGE_REVISIONS, CLOUD_REVISIONS = revisions("edge", EDGE), revisions("cloud", CLOUD)

MakePackage = Callable[..., str]

REVISION = """
from farmiq.kit.migrations import execute_sql_beside
revision = "{number}"
down_revision = {previous!r}
def upgrade(connection):
    execute_sql_beside(__file__, connection)
    {afterwards}
"""


@pytest.fixture
def make_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakePackage:
    """A migrations package with the given scripts: `make_package("name", [sql, ...], afterwards="python of the last one")`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(name: str, scripts: list[str], afterwards: str = "") -> str:
        versions = tmp_path / name / "versions"
        versions.mkdir(parents=True)
        (tmp_path / name / "__init__.py").touch()
        for number, sql in enumerate(scripts, 1):
            previous = str(number - 1) if number > 1 else None
            last = afterwards if number == len(scripts) else ""
            (versions / f"{number}_step.py").write_text(
                REVISION.format(number=number, previous=previous, afterwards=last)
            )
            (versions / f"{number}_step.sql").write_text(sql)
        return name

    return make


@asynccontextmanager
async def session(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def is_there(url: str, table: str) -> bool:
    async with session(url) as connection:
        return bool(await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", table))


async def migrating_backend(connection: asyncpg.Connection, wait_event: str) -> int | None:
    pid: int | None = await connection.fetchval(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'farmiq-migrate' AND wait_event = $1",
        wait_event,
    )
    return pid


async def in_another_process(url: str, package: str) -> asyncio.subprocess.Process:
    program = (
        "import asyncio, os; from farmiq.kit.migrations import migrate; import farmiq.kit.logging as l; l.configure('ERROR');"
        f"print(*asyncio.run(migrate(os.environ['DATABASE_URL'], {package!r})))"
    )
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env=os.environ | {"DATABASE_URL": url}
    )


@pytest.mark.parametrize(("package", "revisions"), [(EDGE, EDGE_REVISIONS), (CLOUD, CLOUD_REVISIONS)])
async def test_a_second_run_finds_nothing_to_do(new_database: NewDatabase, package: str, revisions: list[str]) -> None:
    url = new_database()
    assert await migrate(url, package) == revisions
    assert await migrate(url, package) == []


async def test_four_replicas_that_migrate_at_once_apply_each_revision_once(new_database: NewDatabase) -> None:
    url = new_database()
    replicas = [await in_another_process(url, EDGE) for _ in range(4)]
    outputs = [(await replica.communicate())[0].decode().split() for replica in replicas]
    assert [replica.returncode for replica in replicas] == [0, 0, 0, 0]
    assert sorted(outputs) == [[], [], [], EDGE_REVISIONS]


async def test_two_databases_migrated_by_one_process_at_once_get_their_own_schema(new_database: NewDatabase) -> None:
    edge, cloud = new_database(), new_database()
    applied = await asyncio.gather(
        migrate(edge, EDGE), migrate(cloud, CLOUD), migrate(edge, EDGE), migrate(cloud, CLOUD)
    )
    assert sorted(applied) == [[], [], CLOUD_REVISIONS, EDGE_REVISIONS]
    assert await is_there(edge, "sync_outbox")
    assert not await is_there(edge, "ingest_dedupe")
    assert await is_there(cloud, "ingest_dedupe")
    assert not await is_there(cloud, "sync_outbox")


async def test_waiting_for_the_lock_ends_with_an_error_that_says_so(new_database: NewDatabase) -> None:
    url = new_database()
    async with session(url) as holder:
        await holder.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        with pytest.raises(
            MigrationBusy, match=r"another process has been migrating this database for more than 0\.3 s"
        ):
            await migrate(url, EDGE, patience_seconds=0.3)
        assert not await is_there(url, "sync_outbox")


async def test_the_lock_of_a_session_that_died_is_free(new_database: NewDatabase) -> None:
    url = new_database()
    async with session(url) as judge:
        holder = await asyncpg.connect(url)
        await holder.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)
        waiting = asyncio.create_task(migrate(url, EDGE))
        await eventually(
            lambda: judge.fetchval("SELECT count(*) > 2 FROM pg_stat_activity WHERE datname = current_database()")
        )
        assert not await is_there(url, "sync_outbox")
        await judge.execute("SELECT pg_terminate_backend($1)", holder.get_server_pid())
        assert await waiting == EDGE_REVISIONS
        holder.terminate()


async def test_a_revision_refused_half_way_leaves_nothing_and_those_before_it_stay(
    new_database: NewDatabase, make_package: MakePackage
) -> None:
    url = new_database()
    broken = make_package("broken", ["CREATE TABLE first ();", "CREATE TABLE second (); SELECT 1 / 0;"])
    with pytest.raises(RevisionFailed, match="revision 2_step was refused and rolled back: division by zero") as caught:
        await migrate(url, broken)
    assert isinstance(caught.value.__cause__, asyncpg.DivisionByZeroError)
    assert await is_there(url, "first")
    assert not await is_there(url, "second")

    mended = make_package("mended", ["CREATE TABLE first ();", "CREATE TABLE second (); SELECT 1;"])
    assert await migrate(url, mended) == ["2"]
    assert await is_there(url, "second")


async def test_a_process_killed_between_a_revision_and_its_mark_leaves_neither(
    new_database: NewDatabase, make_package: MakePackage, tmp_path: Path
) -> None:
    url = new_database()
    scripts = ["CREATE TABLE first ();", "CREATE TABLE second ();"]
    reached = tmp_path / "reached"
    stuck = make_package(
        "stuck", scripts, afterwards=f"import pathlib, signal; pathlib.Path({str(reached)!r}).touch(); signal.pause()"
    )
    process = await in_another_process(url, stuck)

    async def has_run_the_second() -> bool:
        return reached.exists()

    await eventually(has_run_the_second)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert await migrate(url, make_package("whole", scripts)) == ["2"]
    assert await is_there(url, "second")


async def test_a_database_that_goes_away_in_a_revision_is_worth_another_try(
    new_database: NewDatabase, make_package: MakePackage
) -> None:
    url = new_database()
    slow = make_package("slow", ["CREATE TABLE first (); SELECT pg_sleep(120);"])
    migration = asyncio.create_task(migrate(url, slow))
    async with session(url) as judge:
        pid = await eventually(lambda: migrating_backend(judge, "PgSleep"))
        await judge.execute("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises(RevisionInterrupted, match="was rolled back, migrate again"):
        await migration
    assert not await is_there(url, "first")
    assert await migrate(url, make_package("quick", ["CREATE TABLE first ();"])) == ["1"]


async def test_a_role_that_may_not_create_is_told_so(postgres_url: str, new_database: NewDatabase) -> None:
    url = new_database()
    role = urlsplit(url).username
    async with session(postgres_url) as admin:
        await admin.execute(
            f'ALTER DATABASE "{role}" OWNER TO CURRENT_USER; GRANT CONNECT ON DATABASE "{role}" TO "{role}"'
        )
    with pytest.raises(RevisionFailed, match="permission denied for schema public"):
        await migrate(url, EDGE)


async def test_a_schema_from_a_newer_version_or_the_other_tier_is_left_alone(new_database: NewDatabase) -> None:
    url = new_database()
    await migrate(url, CLOUD)
    with pytest.raises(
        SchemaUnknown, match=rf"at revision {CLOUD_REVISIONS[-1]}, which is not among edge_0001, .*a newer FarmIQ"
    ):
        await migrate(url, EDGE)
    assert not await is_there(url, "sync_outbox")


async def test_the_password_is_in_no_error_and_no_log(
    new_database: NewDatabase, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    place = new_database().rpartition("@")[2]
    secret = "hunter2-hunter2"
    wrong: list[tuple[str, type[FarmiqError]]] = [
        (f"postgresql://somebody:{secret}@{place}", DatabaseRefused),
        (f"postgresql://somebody@{place}?password={secret}", DatabaseRefused),
        (f"postgresql://somebody:{secret}@127.0.0.1:1/farm", DatabaseAway),
        (f"postgresql://somebody:{secret}@127.0.0.1:{secret}/farm", DatabaseRefused),
        (f"mysql://somebody:{secret}@127.0.0.1/farm", DatabaseRefused),
    ]
    caplog.set_level("DEBUG")
    for url, kind in wrong:
        with pytest.raises(kind) as caught:
            await migrate(url, EDGE)
        assert secret not in "".join(traceback.format_exception(caught.value))
    printed = capfd.readouterr()
    assert secret not in caplog.text + printed.out + printed.err


@pytest.mark.parametrize("package", [EDGE, CLOUD])
def test_revisions_form_one_line_and_none_leads_back(package: str) -> None:
    folder = Path(str(files(package)))
    scripts = ScriptDirectory(str(folder))
    revisions = list(scripts.walk_revisions())
    assert len(scripts.get_heads()) == 1
    assert not any(hasattr(revision.module, "downgrade") for revision in revisions)
    assert {Path(revision.path).with_suffix(".sql") for revision in revisions} == set(folder.glob("versions/*.sql"))

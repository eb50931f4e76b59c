import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from farmiq.stack import binaries
from farmiq.stack.postgres import Postgres, create_role_and_database
from support.postgres import start_postgres
from support.server_process import ServerProcess


@pytest.fixture(scope="module")
def process(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """In a folder that is closed to everybody else, with a path that is too long for a Unix socket."""
    closed = tmp_path_factory.mktemp("closed") / ("deep" * 25)
    closed.mkdir(mode=0o700)
    _, process = start_postgres(closed / "postgres", run_folder)
    yield process
    process.stop()
    assert isinstance(process.server, Postgres)
    assert not process.server.socket_folder.exists()


@pytest.fixture
def server(process: ServerProcess) -> Postgres:
    assert isinstance(process.server, Postgres)
    return process.server


async def test_data_survives_kill_9(process: ServerProcess, server: Postgres) -> None:
    connection = await asyncpg.connect(server.url())
    await connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    process.kill()
    connection.terminate()
    process.start()
    connection = await asyncpg.connect(server.url())
    assert await connection.fetchval("SELECT answer FROM kept") == 42
    await connection.close()


async def test_each_role_owns_its_database_and_can_not_enter_the_other(server: Postgres) -> None:
    superuser = await asyncpg.connect(server.url())
    for name in ("edge", "cloud"):
        await create_role_and_database(superuser, name, f"{name}-password")
    await superuser.close()
    for own, other in (("edge", "cloud"), ("cloud", "edge")):
        connection = await asyncpg.connect(server.url(own, f"{own}-password", own))
        await connection.execute("CREATE TABLE mine (id int)")
        await connection.close()
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
            await asyncpg.connect(server.url(own, f"{own}-password", other))


async def test_making_a_role_and_database_again_changes_only_the_password(server: Postgres) -> None:
    superuser = await asyncpg.connect(server.url())
    await create_role_and_database(superuser, "again", "first")
    connection = await asyncpg.connect(server.url("again", "first", "again"))
    await connection.execute("CREATE TABLE kept (id int)")
    await connection.close()
    await create_role_and_database(superuser, "again", "second")
    await superuser.close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(server.url("again", "first", "again"))
    connection = await asyncpg.connect(server.url("again", "second", "again"))
    assert await connection.fetchval("SELECT count(*) FROM kept") == 0
    await connection.close()


@pytest.mark.parametrize("place", ["loopback", "socket"])
async def test_nobody_gets_in_without_the_password(server: Postgres, place: str) -> None:
    host = "127.0.0.1" if place == "loopback" else str(server.socket_folder)
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(host=host, port=server.port, user="postgres", password="wrong", database="postgres")
    connection = await asyncpg.connect(
        host=host, port=server.port, user="postgres", password=server.superuser_password, database="postgres"
    )
    assert await connection.fetchval("SHOW password_encryption") == "scram-sha-256"
    await connection.close()


def test_the_password_file_of_the_first_start_is_gone(server: Postgres) -> None:
    names = {entry.name for entry in server.folder.iterdir()}
    assert names == {"data", "postgresql.conf", "pg_hba.conf"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_root_runs_it_as_somebody_else(process: ServerProcess) -> None:
    assert psutil.Process(process.pid).uids().effective != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a normal user runs his own programs as himself")
async def test_root_runs_it_from_a_checkout_that_only_root_may_enter(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Installed under umask 077: neither the folders nor the files are open to anybody else.
    copy = tmp_path / "checkout"
    package = Path(binaries.postgres("postgres")).parents[2]
    for part in (package, package.with_name(package.name + ".libs")):
        shutil.copytree(part, copy / part.name)
    for path in (copy, *copy.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
    monkeypatch.setattr(binaries, "postgres", lambda program: str(copy / package.name / "pginstall" / "bin" / program))
    server, process = start_postgres(tmp_path / "postgres", run_folder)
    connection = await asyncpg.connect(server.url())
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
    assert psutil.Process(process.pid).exe().startswith(str(copy))
    process.stop()


async def test_an_initialisation_that_was_cut_short_is_repeated(run_folder: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "postgres" / "data.unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18\n")
    server, process = start_postgres(tmp_path / "postgres", run_folder)
    connection = await asyncpg.connect(server.url())
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
    process.stop()
    assert not unfinished.exists()


async def test_a_lock_that_names_a_stranger_does_not_stop_the_start(process: ServerProcess, server: Postgres) -> None:
    process.kill()
    lock = server.data_folder / "postmaster.pid"
    lines = lock.read_text().splitlines()
    # As after a reboot, when the process id of the old postmaster has gone to somebody else who is alive.
    lock.write_text("\n".join([str(os.getppid()), *lines[1:]]))
    process.start()
    assert lock.read_text().splitlines()[0] == str(process.pid)

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres, create_role_and_database
from support.run_folder import locked, memory_folder
from support.server_process import SHARED, ServerProcess
from support.waiting import run_apart

NewDatabase = Callable[[], str]


def start_postgres(folder: Path, home: Path) -> tuple[Postgres, ServerProcess]:
    server = Postgres(folder, free_port(), secrets.token_urlsafe(16), is_throwaway=True)
    process = ServerProcess(server, home, folder.with_suffix(".log"))
    process.start()
    return server, process


@pytest.fixture(scope="session")
def _postgres(run_folder: Path) -> Postgres:
    """One cluster for the whole run. The first worker that needs it starts it; the run's warden ends it."""
    folder, note = memory_folder(run_folder) / "postgres", run_folder / "postgres.json"
    with locked(run_folder / "postgres.lock"):
        if not note.exists():
            server, process = start_postgres(folder, run_folder)
            SHARED.append(process)
            note.write_text(json.dumps([server.port, server.superuser_password]))
    port, password = json.loads(note.read_text())
    return Postgres(folder, port, password, is_throwaway=True)


@pytest.fixture(scope="session")
def postgres_url(_postgres: Postgres) -> str:
    """Superuser URL of a real PostgreSQL that this run shares. Make databases with `new_database` instead of using this one."""
    return _postgres.url()


@pytest.fixture
def new_database(_postgres: Postgres) -> Iterator[NewDatabase]:
    """Call it for the URL of a fresh empty database with an owner of its own. Dropped after the test."""
    made: list[str] = []

    def make() -> str:
        name, password = f"t{secrets.token_hex(6)}", secrets.token_urlsafe(16)
        run_apart(lambda: _create(_postgres.url(), name, password))
        made.append(name)
        return _postgres.url(name, password, name)

    yield make
    if made:
        run_apart(lambda: _drop(_postgres.url(), made))


@pytest.fixture
def postgres_server(run_folder: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    """A cluster of the test's own, for tests that kill or restart it (`.server.url()`, `.kill()`, `.start()`, `.restart()`)."""
    _, process = start_postgres(tmp_path / "postgres", run_folder)
    yield process
    process.stop()


async def _create(url: str, name: str, password: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await create_role_and_database(connection, name, password)
    finally:
        await connection.close()


async def _drop(url: str, names: list[str]) -> None:
    connection = await asyncpg.connect(url)
    try:
        for name in names:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
            await connection.execute(f'DROP ROLE "{name}"')
    finally:
        await connection.close()

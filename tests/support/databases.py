"""Migrated databases, and pools on them. Migrating takes a second, copying what was migrated a tenth of it."""

import json
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio

from farmiq.kit.database_roles import writers_of
from farmiq.kit.migrations import migrate
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.postgres import Postgres, create_role_and_database
from support.run_folder import locked
from support.waiting import run_apart


@pytest.fixture
def edge_url(_postgres: Postgres, run_folder: Path) -> Iterator[str]:
    """A fresh edge database with its schema."""
    yield from database_copy(_postgres, run_folder, "edge")


@pytest.fixture
def cloud_url(_postgres: Postgres, run_folder: Path) -> Iterator[str]:
    """A fresh cloud database with its schema."""
    yield from database_copy(_postgres, run_folder, "cloud")


@pytest_asyncio.fixture
async def edge_pool(edge_url: str) -> AsyncIterator[Pool]:
    async with await open_pool(edge_url, service="test") as pool:
        yield pool


@pytest_asyncio.fixture
async def cloud_pool(cloud_url: str) -> AsyncIterator[Pool]:
    async with await open_pool(cloud_url, service="test") as pool:
        yield pool


@pytest.fixture(params=["edge", "cloud"])
def any_pool(request: pytest.FixtureRequest) -> Pool:
    """Both tiers in turn, for what is the same in both."""
    pool: Pool = request.getfixturevalue(f"{request.param}_pool")
    return pool


def database_copy(server: Postgres, run_folder: Path, tier: str) -> Iterator[str]:
    role, password = _template(server, run_folder, tier)
    name = f"t{secrets.token_hex(6)}"
    run_apart(
        lambda: _execute(server.url(), f'CREATE DATABASE "{name}" TEMPLATE "{role}" OWNER "{role}" STRATEGY FILE_COPY')
    )
    yield server.url(role, password, name)
    run_apart(lambda: _execute(server.url(), f'DROP DATABASE "{name}" WITH (FORCE)'))


def _template(server: Postgres, run_folder: Path, tier: str) -> tuple[str, str]:
    """The owner of the migrated database that the others are copied from; it has the same name."""
    note = run_folder / f"{tier}-template.json"
    with locked(note.with_suffix(".lock")):
        if not note.exists():
            role, password = f"{tier}_{secrets.token_hex(4)}", secrets.token_urlsafe(16)
            run_apart(lambda: _make_template(server, role, password, tier))
            note.write_text(json.dumps([role, password]))
    role, password = json.loads(note.read_text())
    return role, password


async def _make_template(server: Postgres, role: str, password: str, tier: str) -> None:
    connection = await asyncpg.connect(server.url())
    try:
        await create_role_and_database(connection, role, password, writers_of(f"farmiq.{tier}.migrations"))
    finally:
        await connection.close()
    await migrate(server.url(role, password, role), f"farmiq.{tier}.migrations")


async def take_snapshot(server: Postgres, url: str) -> str:
    """All of the database as it is now, as the disk of its machine would keep it. Whoever is connected has to connect again."""
    name, role = _names(url)
    before = f"{name}_before"
    try:
        await _execute(server.url(), f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false', _disconnected(name))
        await _execute(server.url(), f'CREATE DATABASE "{before}" TEMPLATE "{name}" OWNER "{role}" STRATEGY FILE_COPY')
    finally:
        await _execute(server.url(), f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    return before


async def set_back(server: Postgres, url: str, snapshot: str) -> None:
    """The database goes back, and says nothing of it. The snapshot is gone then."""
    name, _ = _names(url)
    await _execute(
        server.url(), f'DROP DATABASE "{name}" WITH (FORCE)', f'ALTER DATABASE "{snapshot}" RENAME TO "{name}"'
    )


def _names(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    assert parts.username is not None
    return parts.path.removeprefix("/"), parts.username


def _disconnected(name: str) -> str:
    return f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608 - ours


async def _execute(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import asyncpg
import pytest

from farmiq.kit.migrations import migrate
from farmiq.stack.postgres import create_role_and_database
from support.waiting import run_apart

EDGE = "farmiq.edge.migrations"
CLOUD = "farmiq.cloud.migrations"

Connect = Callable[[str], Awaitable[asyncpg.Connection]]


@pytest.fixture(scope="session")
def edge_url(postgres_url: str) -> Iterator[str]:
    """A migrated edge database for tests that leave it as they found it."""
    yield from _migrated(postgres_url, EDGE)


@pytest.fixture(scope="session")
def cloud_url(postgres_url: str) -> Iterator[str]:
    yield from _migrated(postgres_url, CLOUD)


@pytest.fixture
async def edge(edge_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A session in a transaction that is rolled back."""
    async for connection in _rolled_back(edge_url):
        yield connection


@pytest.fixture
async def cloud(cloud_url: str) -> AsyncIterator[asyncpg.Connection]:
    async for connection in _rolled_back(cloud_url):
        yield connection


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Sessions that are closed after the test, however it ends."""
    made: list[asyncpg.Connection] = []

    async def one_more(url: str) -> asyncpg.Connection:
        made.append(await asyncpg.connect(url))
        return made[-1]

    yield one_more
    for connection in made:
        connection.terminate()


async def _rolled_back(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield connection
    await transaction.rollback()
    await connection.close()


def _migrated(admin_url: str, package: str) -> Iterator[str]:
    name, password = f"m{secrets.token_hex(6)}", secrets.token_urlsafe(16)

    async def make() -> str:
        admin = await asyncpg.connect(admin_url)
        await create_role_and_database(admin, name, password)
        await admin.close()
        place = admin_url.rpartition("@")[2].partition("/")[0]
        url = f"postgresql://{name}:{password}@{place}/{name}"
        await migrate(url, package)
        return url

    async def drop() -> None:
        admin = await asyncpg.connect(admin_url)
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.execute(f'DROP ROLE "{name}"')
        await admin.close()

    yield run_apart(make)
    run_apart(drop)

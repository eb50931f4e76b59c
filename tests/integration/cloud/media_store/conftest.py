"""One service for all tests of this folder, as a process of its own; each test begins with no pictures."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.object_store import create_bucket
from farmiq.stack.postgres import Postgres
from farmiq.stack.rabbitmq import RabbitMq
from support.cloud_media import SERVICE, MediaCloud, environ, media_cloud
from support.databases import database_copy
from support.rabbitmq import fresh_vhost
from support.s3 import S3
from support.service_process import service_process


@pytest.fixture(scope="session")
def shared_url(_postgres: Postgres, run_folder: Path) -> Iterator[str]:
    yield from database_copy(_postgres, run_folder, "cloud")


@pytest.fixture(scope="session")
def amqp_url(_rabbitmq: RabbitMq) -> Iterator[str]:
    yield from fresh_vhost(_rabbitmq)


@pytest.fixture(scope="session")
def bucket(_seaweedfs: S3) -> S3:
    name = f"t{secrets.token_hex(6)}"
    create_bucket(_seaweedfs.endpoint, _seaweedfs.access_key, _seaweedfs.secret_key, name)
    return S3(_seaweedfs.endpoint, _seaweedfs.access_key, _seaweedfs.secret_key, name)


@pytest.fixture(scope="session")
def variables(shared_url: str, amqp_url: str, bucket: S3) -> dict[str, str]:
    return environ(shared_url, amqp_url, bucket)


@pytest.fixture(scope="session")
def service_url(variables: dict[str, str], run_folder: Path) -> Iterator[str]:
    log = run_folder / f"{SERVICE}-{secrets.token_hex(4)}.log"
    with service_process(SERVICE, variables, run_folder, log) as process:
        yield process.url


@pytest_asyncio.fixture
async def pool(shared_url: str) -> AsyncIterator[Pool]:
    async with await open_pool(shared_url, service="test") as pool:
        await pool.execute("DELETE FROM media_objects")
        yield pool


@pytest_asyncio.fixture
async def cloud(pool: Pool, variables: dict[str, str], bucket: S3, service_url: str) -> AsyncIterator[MediaCloud]:
    async with media_cloud(pool, variables, bucket, url=service_url) as cloud:
        yield cloud

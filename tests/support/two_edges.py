"""Two edges with databases of their own, and one real cloud-ingestion that lets both in."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from farmiq.cloud.ingestion import device_moves, edges
from farmiq.cloud.ingestion.main import serve as serve_cloud
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.postgres import Postgres
from support.databases import database_copy
from support.rabbitmq import NewVirtualHost
from support.service_process import running


@pytest.fixture
def second_edge_url(_postgres: Postgres, run_folder: Path) -> Iterator[str]:
    yield from database_copy(_postgres, run_folder, "edge")


@pytest_asyncio.fixture
async def second_edge_pool(second_edge_url: str) -> AsyncIterator[Pool]:
    async with await open_pool(second_edge_url, service="test") as pool:
        yield pool


@pytest.fixture
def amqp_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


class Cloud:
    """cloud-ingestion, and tokens for two edges."""

    def __init__(self, pool: Pool, url: str, tokens: dict[str, str]) -> None:
        self.pool = pool
        self.url = url
        self.tokens = tokens

    def environ(self, edge: str, database_url: str) -> dict[str, str]:
        return {
            "DATABASE_URL": database_url,
            "CLOUD_INGESTION_URL": self.url,
            "CLOUD_INGESTION_TOKEN": self.tokens[edge],
            "EDGE_CLUSTER_ID": edge,
            "INSTANCE_ID": edge,
            "OUTBOX_BATCH_SIZE": "50",
            "SYNC_BATCH_EVENTS_SECONDS": "0",
            "SYNC_INTERVAL_MS": "300",
        }

    async def move(self, device_id: str, to_edge: str) -> None:
        async with self.pool.acquire() as connection:
            await device_moves.move(
                connection, tenant_id="demo", device_id=device_id, to_edge=to_edge, moved_by="the test"
            )


@pytest_asyncio.fixture
async def cloud(cloud_url: str, cloud_pool: Pool, amqp_url: str) -> AsyncIterator[Cloud]:
    tokens = {edge: secrets.token_urlsafe(24) for edge in ("edge-1", "edge-2")}
    async with cloud_pool.acquire() as connection:
        for edge, token in tokens.items():
            await edges.register(connection, edge_cluster_id=edge, tenant_ids=["demo"], token=token)
    async with running(serve_cloud, "cloud-ingestion", {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}) as url:
        yield Cloud(cloud_pool, url, tokens)

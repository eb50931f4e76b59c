from collections.abc import AsyncIterator

import pytest_asyncio

from farmiq.kit.postgres import Pool, open_pool


@pytest_asyncio.fixture
async def pool(edge_url: str) -> AsyncIterator[Pool]:
    """An empty outbox, with a connection for each of many claimers."""
    async with await open_pool(edge_url, service="test", size_max=12) as opened:
        yield opened

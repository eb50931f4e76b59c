"""RabbitMQ is killed with -9 under load and comes back: between an edge's batch and the cloud's tables nothing is lost.

BUS_CAMPAIGN_KILLS in the environment says how many kills the long form has."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from farmiq.kit.postgres import Pool
from farmiq.stack.rabbitmq import RabbitMq
from support.cloud_traffic import cloud, traffic, until_more_is_taken
from support.rabbitmq import start_rabbitmq
from support.server_process import ServerProcess

KILLS: Final = 1
LONG: Final = int(os.environ.get("BUS_CAMPAIGN_KILLS", "20"))
many_kills = pytest.mark.long(reason="the same campaign, with many kills one after the other")


@pytest.fixture
def broker(run_folder: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    epmd, rabbitmq = start_rabbitmq(tmp_path / "rabbitmq", run_folder)
    yield rabbitmq
    rabbitmq.kill()
    epmd.stop()


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(KILLS, marks=pytest.mark.timeout(240 + 120 * KILLS)),
        pytest.param(LONG, marks=[many_kills, pytest.mark.timeout(240 + 120 * LONG)]),
    ],
)
async def test_broker_killed_and_restarted_under_load_loses_nothing_that_an_edge_was_told_is_taken(
    broker: ServerProcess, cloud_url: str, cloud_pool: Pool, run_folder: Path, tmp_path: Path, kills: int
) -> None:
    server = broker.server
    assert isinstance(server, RabbitMq)
    async with cloud(cloud_pool, cloud_url, server.url(), run_folder, tmp_path) as here:
        ingestion, telemetry = await here.ingestion(), await here.telemetry_service()
        async with traffic(ingestion.url) as edges:
            for _ in range(kills):
                await until_more_is_taken(edges, 200)
                broker.kill()
                await asyncio.to_thread(broker.start, 120.0)
                # One batch of each may have been taken just before the kill; the second was taken after it.
                await until_more_is_taken(edges, 200)
        await here.until_stored(edges)
        await here.stop(telemetry)
        await here.check(edges)
        assert set((await here.depths()).values()) == {0}
    assert all(edge.answers["bus_away"] >= kills for edge in edges)

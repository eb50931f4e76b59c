"""Three nodes of RabbitMQ: the one that leads every queue, and that every service is connected to, is killed with -9 under load.

Then it comes back, and the one that leads now is killed: what was stored without the first one has to be in it by then."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from farmiq.cloud.topology import topology
from farmiq.kit.postgres import Pool
from support.cloud_traffic import WORK_QUEUE, cloud, traffic, until_more_is_taken
from support.rabbitmq_cluster import Cluster, rabbitmq_cluster
from support.waiting import eventually

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def cluster(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with rabbitmq_cluster(tmp_path_factory.mktemp("cluster"), run_folder) as made:
        yield made


async def kill_leader(cluster: Cluster) -> int:
    """Returns when the queue has another leader."""
    dead = await asyncio.to_thread(cluster.leader_of, WORK_QUEUE.name)
    assert dead is not None
    cluster.nodes[dead].kill()

    async def is_led_again() -> bool:
        return await asyncio.to_thread(cluster.leader_of, WORK_QUEUE.name) != dead

    await eventually(is_led_again, 60.0, "another leader")
    return dead


async def bring_back(cluster: Cluster, number: int) -> None:
    """Returns when the node has caught up: losing another one is no loss then."""
    await asyncio.to_thread(cluster.nodes[number].start, 180.0)
    await asyncio.to_thread(cluster.wait_for_all)

    async def has_caught_up() -> bool:
        return await asyncio.to_thread(cluster.has_caught_up, number, WORK_QUEUE.name)

    await eventually(has_caught_up, 90.0, "the node to have what it missed")


async def test_queue_leaders_node_killed_under_load_loses_nothing_and_so_does_the_next_one(
    cluster: Cluster, cloud_url: str, cloud_pool: Pool, run_folder: Path, tmp_path: Path
) -> None:
    async with cloud(cloud_pool, cloud_url, cluster.url, run_folder, tmp_path) as here:
        ingestion, telemetry = await here.ingestion(), await here.telemetry_service()
        assert {cluster.leader_of(queue.name) for queue in topology().queues} == {0}
        async with traffic(ingestion.url) as edges:
            await until_more_is_taken(edges, 200)
            first = await kill_leader(cluster)
            await until_more_is_taken(edges, 200)
            await here.until_stored(edges)
            await bring_back(cluster, first)
            second = await kill_leader(cluster)
            await until_more_is_taken(edges, 200)
        assert (first, second) in {(0, 1), (0, 2)}
        await here.until_stored(edges)
        await here.stop(telemetry)
        await here.check(edges)
        assert set((await here.depths()).values()) == {0}

"""A node's disk is set back to an image, with a real broker, gateway and database. promise-device-edge 2.

The forwarder dies at every step of beginning the new stream, and the one after it goes on."""

import asyncio
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.device.handover import Hello, Row, Stored
from farmiq.kit.postgres import Pool
from integration.device.node_world import BOOT, CHANNELS, NOON_US, Node, connected, rows
from support.gateway import SERVICE, environment, register, wait_until_ready
from support.mosquitto import Broker
from support.service_process import Death, service_process
from support.waiting import eventually

OTHER_BOOT = UUID(int=78)
DAY_US = 86_400_000_000
STEPS: list[Death | None] = [
    None,
    ("farmiq.spool.spool:Spool.begin_stream", "before", 1),
    ("farmiq.spool.streams:Streams.begin", "after", 1),
    ("farmiq.spool.losses:LossJournal.follow_streams", "after", 2),  # the first one is at the start
    ("farmiq.spool.spool:Spool.begin_stream", "after", 1),
    ("farmiq.device.node_forwarder.lanes:Lanes.went_back", "after", 1),
]


def later(first: int, last: int) -> list[Row]:
    """Of the next boot, a day later: sample `n` has the value 5000 + n."""
    return [(NOON_US + DAY_US + n * 1000, n * 1000, n % 2, 2, 5000.0 + n) for n in range(first, last + 1)]


async def until_stored(pool: Pool, values: set[float]) -> None:
    async def stored() -> bool:
        found = {row["metric_value"] for row in await pool.fetch("SELECT metric_value FROM telemetry_raw")}
        return found >= values

    await eventually(stored, what=f"{len(values)} samples at the edge", seconds=60)


async def first_life(node: Node, pool: Pool, image: Path) -> None:
    """100 samples that the edge has, and an image of the disk from when there were 40."""
    with node.forwarder():
        async with connected(node, Hello(BOOT, CHANNELS)) as agent:
            assert isinstance(await agent.hand_over(rows(1, 40)), Stored)
        await until_stored(pool, set(map(float, range(1, 41))))
    shutil.copytree(node.spool_folder, image)
    with node.forwarder():
        async with connected(node, Hello(BOOT, CHANNELS)) as agent:
            assert isinstance(await agent.hand_over(rows(41, 100)), Stored)
        await until_stored(pool, set(map(float, range(1, 101))))


@pytest.mark.parametrize("dies", STEPS, ids=lambda death: " ".join(map(str, death[:2])) if death else "nobody dies")
async def test_nothing_that_a_node_stored_after_its_disk_was_set_back_vanishes(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path, dies: Death | None
) -> None:
    await register(edge_pool)
    node = Node(tmp_path, run_folder, mosquitto.url("node-1"))
    environ = environment(edge_url, mosquitto)
    with service_process(SERVICE, environ, run_folder, tmp_path / "gateway.log") as gateway:
        await asyncio.to_thread(wait_until_ready, gateway)
        await first_life(node, edge_pool, tmp_path / "image")
        shutil.rmtree(node.spool_folder)
        shutil.copytree(tmp_path / "image", node.spool_folder)
        away, node.mqtt_url = node.mqtt_url, "mqtt://127.0.0.1:9"
        with node.forwarder():  # more than the edge has, so that its mark is not absurd when it is there again
            async with connected(node, Hello(OTHER_BOOT, CHANNELS)) as agent:
                assert isinstance(await agent.hand_over(later(1, 80)), Stored)
        node.mqtt_url = away
        if dies is not None:
            with node.forwarder(dies) as forwarder:
                await asyncio.to_thread(forwarder.wait_for_death, 60.0)
        with node.forwarder():
            await until_stored(edge_pool, {5000.0 + n for n in range(1, 81)})
    found = await edge_pool.fetch("SELECT metric_value, count(*) AS times FROM telemetry_raw GROUP BY 1 ORDER BY 1")
    expected = [*map(float, range(1, 101)), *(5000.0 + n for n in range(1, 81))]
    assert [(row["metric_value"], row["times"]) for row in found] == [(value, 1) for value in expected]
    assert await edge_pool.fetchval("SELECT count(*) FROM stream_losses") == 0
    assert await edge_pool.fetchval("SELECT count(*) FROM streams") == 2
    assert await edge_pool.fetchval("SELECT count(*) FROM ops_alerts") == 0, "it was compared before anything was sent"

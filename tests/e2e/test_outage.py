"""A node that was cut off for 48 hours and killed in the middle: nothing is missing afterwards, and nothing is there twice."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.outage_world import (
    HELLO,
    Sensors,
    hand_over_history,
    hand_over_through_a_kill,
    measuring,
    provision,
    watched,
)
from farmiq.kit.postgres import Pool
from integration.device.node_world import Node, connected
from support.mosquitto import Broker
from support.service_process import ServiceProcess, service_process
from support.waiting import eventually

TOKEN = "for-this-test-only"
OUTAGE_SECONDS = int(float(os.environ.get("FARMIQ_OUTAGE_HOURS", "48")) * 3600)

many_samples = pytest.mark.long(
    reason="1.7 million samples of the same 48 hours: what 170 thousand show, at the rate of a node"
)
pytestmark = pytest.mark.parametrize("every_seconds", [10, pytest.param(1, marks=many_samples)])


@pytest.fixture
def node(tmp_path: Path, run_folder: Path, mosquitto: Broker) -> Node:
    node = Node(tmp_path, run_folder)
    node.mqtt_url = mosquitto.url("node-1")
    return node


@pytest.fixture
def gateway(edge_url: str, mosquitto: Broker, run_folder: Path, tmp_path: Path) -> Iterator[ServiceProcess]:
    environ = {"DATABASE_URL": edge_url, "MQTT_URL": mosquitto.url("edge-ingress-gateway"), "ADMIN_TOKEN": TOKEN}
    with service_process("edge-ingress-gateway", environ, run_folder, tmp_path / "gateway.log") as process:
        yield process


@pytest.fixture
def telemetry(edge_url: str, run_folder: Path, tmp_path: Path) -> Iterator[ServiceProcess]:
    environ = {"DATABASE_URL": edge_url, "ADMIN_TOKEN": TOKEN}
    with service_process("edge-telemetry-timeseries", environ, run_folder, tmp_path / "telemetry.log") as process:
        yield process


async def live_through(sensors: Sensors, node: Node, pool: Pool, mosquitto: Broker, telemetry: ServiceProcess) -> None:
    """The outage, a kill in its middle, the broker's return, and live samples until everything has arrived."""
    with node.forwarder() as forwarder:
        await hand_over_history(node, sensors, sensors.readings // 2)
        await hand_over_through_a_kill(node, sensors, forwarder)
        await hand_over_history(node, sensors, sensors.readings_left)
        history = sensors.taken
        async with connected(node, HELLO) as agent, watched(telemetry, TOKEN, history) as seen:
            mosquitto.start()
            async with measuring(agent, sensors):
                await eventually(lambda: is_filled(pool, history), 170, "the backlog at the edge")
            await eventually(lambda: is_filled(pool, sensors.taken), 20, "the last live samples")
    assert seen.live_overtook > 0
    assert seen.last_rx == sorted(seen.last_rx)
    assert seen.last_sample == sorted(seen.last_sample)
    came_back_at = seen.online.index(True)
    assert all(seen.online[came_back_at:])


async def is_filled(pool: Pool, samples: int) -> bool:
    """Whether every sequence up to `samples` is stored or declared lost."""
    query = "SELECT received + lost @> int8range(1, $1, '[]') FROM streams"
    return bool(await pool.fetchval(query, samples))


async def test_48_hours_without_a_broker_and_a_kill_lose_nothing_and_live_samples_come_first(
    node: Node,
    gateway: ServiceProcess,
    telemetry: ServiceProcess,
    edge_pool: Pool,
    mosquitto: Broker,
    every_seconds: int,
) -> None:
    await provision(edge_pool)
    mosquitto.kill()
    sensors = Sensors(OUTAGE_SECONDS, every_seconds)
    await live_through(sensors, node, edge_pool, mosquitto, telemetry)
    stored = await edge_pool.fetchrow(
        "SELECT count(*), count(DISTINCT seq) AS different, count(*) FILTER (WHERE metric_value = seq) AS right_ones,"
        "       min(seq), max(seq) FROM telemetry_raw"
    )
    assert stored is not None
    assert tuple(stored) == (sensors.taken, sensors.taken, sensors.taken, 1, sensors.taken)
    assert await edge_pool.fetchval("SELECT isempty(lost) FROM streams")


async def test_a_cap_too_small_for_the_outage_ends_with_stored_plus_declared_lost_equal_to_captured(
    node: Node,
    gateway: ServiceProcess,
    telemetry: ServiceProcess,
    edge_pool: Pool,
    mosquitto: Broker,
    every_seconds: int,
) -> None:
    await provision(edge_pool)
    sensors = Sensors(OUTAGE_SECONDS, every_seconds)
    node.variables["NODE_FORWARDER_MAX_SPOOL_BYTES"] = str(sensors.readings * 10 * 40 // 4)
    mosquitto.kill()
    await live_through(sensors, node, edge_pool, mosquitto, telemetry)
    stored = await edge_pool.fetchval("SELECT count(*) FROM telemetry_raw")
    told = await edge_pool.fetchval("SELECT sum(count) FROM stream_losses")
    assert 0 < told < sensors.taken
    assert stored + told == sensors.taken
    assert await edge_pool.fetchval("SELECT isempty(received * lost) FROM streams")

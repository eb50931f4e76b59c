"""Wills, queues and kept states as a real broker delivers them, through the gateway, to what an operator is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest_asyncio

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.main import serve as serve_gateway
from farmiq.kit.mqtt import MqttClient, Will
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.cut_link import Cable, plugged
from support.mosquitto import Broker
from support.query_api import QueryApi, query_api
from support.service_process import running
from support.speaking_node import SpeakingNode
from support.telemetry import HERE
from support.waiting import eventually

BESIDE = Origin("demo", "farm-1", "barn-1", "node-2")


class World:
    """A broker, a gateway that comes and goes, and the query service."""

    def __init__(self, edge_url: str, broker: Broker, api: QueryApi) -> None:
        self.broker = broker
        self.api = api
        self._environ = {
            "DATABASE_URL": edge_url,
            "MQTT_URL": broker.url("edge-ingress-gateway"),
            "ADMIN_TOKEN": "for-this-test-only",
        }

    @asynccontextmanager
    async def gateway(self, name: str = "edge-ingress-gateway") -> AsyncIterator[None]:
        """Up, and subscribed."""
        async with running(serve_gateway, "edge-ingress-gateway", self._environ | {"INSTANCE_ID": name}):
            await self.pass_marker()
            yield

    async def pass_marker(self) -> None:
        """Returns when the gateway has taken something that was published after everything else."""
        marker = MqttClient(self.broker.url("node-2"), client_id="node-2")
        await marker.start()
        await marker.wait_connected()
        node = SpeakingNode(BESIDE)
        before = (await self.device("node-2") or {}).get("last_rx_at")

        async def is_taken() -> bool:
            message = node.status(datetime.now(UTC))
            await marker.publish(message.topic, message.payload)
            return (await self.device("node-2") or {}).get("last_rx_at") != before

        await eventually(is_taken, what="the gateway to take a message")
        await marker.stop()

    async def device(self, device_id: str = "node-1") -> Any:
        status, answer = await self.api.ask(f"/api/v1/devices/{device_id}", tenant_id="demo")
        return answer if status == 200 else None

    async def is_online(self) -> bool:
        return bool((await self.device() or {}).get("online"))

    async def is_offline(self) -> bool:
        return (await self.device() or {}).get("online") is False


@asynccontextmanager
async def connected(node: SpeakingNode, url: str) -> AsyncIterator[MqttClient]:
    will = Will(node.will.topic, node.will.payload)
    client = MqttClient(url, client_id=node.origin.device_id, clean_session=True, will=will)
    await client.start()
    await client.wait_connected()
    yield client
    await client.stop()


@pytest_asyncio.fixture
async def world(edge_url: str, edge_pool: Pool, mosquitto: Broker) -> AsyncIterator[World]:
    async with edge_pool.acquire() as connection:
        for origin in (HERE, BESIDE):
            await devices.register(
                connection,
                tenant_id=origin.tenant_id,
                farm_id=origin.farm_id,
                barn_id=origin.barn_id,
                device_id=origin.device_id,
                kind="node",
            )
    async with query_api(edge_url) as api:
        yield World(edge_url, mosquitto, api)


async def speak(client: MqttClient, node: SpeakingNode, samples: int = 20) -> None:
    status = node.status(datetime.now(UTC))
    await client.publish(status.topic, status.payload, retain=True)
    for _ in range(samples):
        message = node.sample(datetime.now(UTC))
        await client.publish(message.topic, message.payload)


async def test_a_cut_device_is_offline_at_once_each_time_and_online_when_it_is_back(world: World) -> None:
    node = SpeakingNode()
    async with world.gateway(), plugged(world.broker.url("node-1")) as cable, connected(node, cable.url) as client:
        for _ in range(2):
            await client.wait_connected()
            await speak(client, node)
            await eventually(world.is_online, what="the device online")
            await cut(cable, client)
            await eventually(world.is_offline, what="the device offline by its will, long before the timeout")
            await cable.plug()


async def test_a_device_that_spoke_and_died_while_the_gateway_was_away_ends_offline(world: World) -> None:
    node = SpeakingNode()
    async with world.gateway():
        assert (await world.device())["state"] == "never_heard"
    async with plugged(world.broker.url("node-1")) as cable, connected(node, cable.url) as client:
        await speak(client, node)
        await cut(cable, client)
    async with world.gateway():
        device = await world.device()
        assert device["marks"]["edge_contiguous_seq"] == 20, "the whole queue was taken"
        assert (device["online"], device["reported_state"]) == (False, "offline")
        assert device["last_rx_at"] is not None


async def test_the_state_that_the_broker_keeps_of_a_dead_device_does_not_bring_it_to_life(world: World) -> None:
    """The broker died with the device: its will was never published, and the kept state says online for ever."""
    node = SpeakingNode()
    async with connected(node, world.broker.url("node-1")) as client:
        await speak(client, node, samples=0)
    for name in ("gateway-1", "gateway-2"):
        async with world.gateway(name):  # without a session: the broker owes it nothing but what it keeps
            assert (await world.device())["state"] == "never_heard"


async def cut(cable: Cable, client: MqttClient) -> None:
    await cable.pull()

    async def is_away() -> bool:
        return not client.is_connected

    await eventually(is_away, what="the device to notice")

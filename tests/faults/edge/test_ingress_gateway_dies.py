"""The gateway is killed between commit and acknowledgement, and on both sides of it; so are its neighbours."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode
from farmiq.edge.ingress_gateway import devices
from farmiq.kit.migrations import migrate
from farmiq.kit.mqtt import BrokerAway, MqttClient
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.postgres import Postgres
from support.mosquitto import Broker
from support.server_process import ServerProcess
from support.service_process import service_process
from support.telemetry import batch_message, raw_message
from support.waiting import eventually

pytestmark = pytest.mark.timeout(120)

BEFORE_COMMIT = ("farmiq.edge.ingress_gateway.store:epoch", "after", 2)
AFTER_COMMIT = ("farmiq.kit.mqtt:MqttClient.acknowledge", "before", 2)
AFTER_BROKER_ACK = ("farmiq.kit.mqtt:MqttClient.acknowledge", "after", 2)
AFTER_DEVICE_ACK = ("farmiq.kit.mqtt:MqttClient.publish", "after", 2)


class Device:
    """A node as the gateway sees it: publishes, and believes only what it is told on its acknowledgement topic."""

    def __init__(self, broker: Broker) -> None:
        self.stream = uuid4()
        self.acked_seq = 0
        self._mqtt = MqttClient(broker.url("node-1"), client_id="node-1", subscriptions=["iot/node-1/ack"])

    async def __aenter__(self) -> "Device":
        await self._mqtt.start()
        await self._mqtt.wait_connected()
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.cancel()
        await self._mqtt.stop()

    async def send(self, first: int, last: int, event_id: UUID | None = None) -> None:
        message = batch_message(self.stream, first, last, event_id=event_id)
        await self._mqtt.publish(message.topic, message.payload)

    async def send_raw(self, topic: str, payload: bytes) -> None:
        message = raw_message(topic, payload)
        await self._mqtt.publish(message.topic, message.payload)

    async def send_until_acked(self, last: int) -> None:
        """What a node does after a silence: send again everything it was not told of."""

        async def is_acked() -> bool:
            try:
                await self._mqtt.wait_connected()
                await self.send(self.acked_seq + 1, last)
            except BrokerAway:
                return False
            return await self._heard(last)

        await eventually(is_acked, 60.0, f"an acknowledgement of {last}")

    async def _heard(self, last: int) -> bool:
        async def is_told() -> bool:
            return self.acked_seq >= last

        try:
            return await eventually(is_told, 1.0)
        except AssertionError:
            return False

    async def _listen(self) -> None:
        while messages := await self._mqtt.next_batch(100, 0.0):
            for message in messages:
                ack = decode(DeviceAck, message.payload, max_bytes=1 << 20)
                if ack.stream_id == self.stream:
                    self.acked_seq = max(self.acked_seq, ack.acked_seq)
            self._mqtt.acknowledge(messages)


def environment(database_url: str, broker: Broker) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "MQTT_URL": broker.url("edge-ingress-gateway"),
        "ADMIN_TOKEN": "for-this-test",
    }


async def register(pool: Pool) -> None:
    async with pool.acquire() as connection:
        await devices.register(
            connection, tenant_id="demo", farm_id="farm-1", barn_id="barn-1", device_id="node-1", kind="node"
        )


async def assert_exactly_once(pool: Pool, stream: UUID, last: int) -> None:
    rows = await pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream)
    assert [row["seq"] for row in rows] == list(range(1, last + 1))
    packed = await pool.fetch(
        "SELECT payload_json->'seq0' AS first, jsonb_array_length(payload_json->'t') AS n FROM sync_outbox"
    )
    covered = [seq for row in packed for seq in range(int(bytes(row["first"])), int(bytes(row["first"])) + row["n"])]
    assert sorted(covered) == list(range(1, last + 1))
    assert await pool.fetchval("SELECT sum(count) FROM telemetry_agg WHERE \"window\" = '1d'") == last


@pytest.mark.parametrize("dies", [BEFORE_COMMIT, AFTER_COMMIT, AFTER_BROKER_ACK, AFTER_DEVICE_ACK])
async def test_gateway_killed_around_its_acknowledgements_stores_every_sample_once(
    dies: tuple[str, str, int], edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    await register(edge_pool)
    environ = environment(edge_url, mosquitto)
    async with Device(mosquitto) as device:
        with service_process("edge-ingress-gateway", environ, run_folder, tmp_path / "first.log", dies) as gateway:
            await device.send_until_acked(10)
            await device.send(11, 20)
            await asyncio.to_thread(gateway.wait_for_death)
        with service_process("edge-ingress-gateway", environ, run_folder, tmp_path / "second.log"):
            await device.send_until_acked(30)
        await assert_exactly_once(edge_pool, device.stream, 30)


@pytest.mark.parametrize("has_saved", [False, True])
async def test_broker_killed_under_load_loses_nothing_that_the_device_still_holds(
    has_saved: bool, edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    """From its own file, Mosquitto 2.0.11 comes back with the gateway's session and without its shared subscriptions."""
    await register(edge_pool)
    with service_process(
        "edge-ingress-gateway", environment(edge_url, mosquitto), run_folder, tmp_path / "gateway.log"
    ):
        async with Device(mosquitto) as device:
            await device.send_until_acked(10)
            if has_saved:
                await asyncio.to_thread(mosquitto.save_sessions)
            await device.send(11, 20)
            await asyncio.to_thread(mosquitto.kill)
            await asyncio.to_thread(mosquitto.start)
            await device.send_until_acked(40)
            await assert_exactly_once(edge_pool, device.stream, 40)


async def test_database_restarted_under_load_is_waited_for_and_nothing_is_acknowledged_meanwhile(
    postgres_server: ServerProcess, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    server = postgres_server.server
    assert isinstance(server, Postgres)
    url = server.url()
    await migrate(url, "farmiq.edge.migrations")
    async with await open_pool(url, service="test") as pool:
        await register(pool)
    with service_process(
        "edge-ingress-gateway", environment(url, mosquitto), run_folder, tmp_path / "gateway.log"
    ) as gateway:
        async with Device(mosquitto) as device:
            await device.send_until_acked(10)
            await asyncio.to_thread(postgres_server.kill)
            await device.send(11, 20)

            async def is_waiting() -> bool:
                return "database_waited_for" in gateway.log_text()

            await eventually(is_waiting, what="the gateway waiting for its database")
            assert device.acked_seq == 10
            await asyncio.to_thread(postgres_server.start)
            await device.send_until_acked(30)
            async with await open_pool(url, service="test") as pool:
                await assert_exactly_once(pool, device.stream, 30)


async def test_two_replicas_share_the_work_and_store_each_repeated_batch_once(
    edge_url: str, edge_pool: Pool, mosquitto: Broker, run_folder: Path, tmp_path: Path
) -> None:
    await register(edge_pool)
    environs = [environment(edge_url, mosquitto) | {"INSTANCE_ID": f"gateway-{number}"} for number in (1, 2)]
    with (
        service_process("edge-ingress-gateway", environs[0], run_folder, tmp_path / "one.log"),
        service_process("edge-ingress-gateway", environs[1], run_folder, tmp_path / "two.log"),
    ):
        async with Device(mosquitto) as device:
            await device.send_until_acked(1)
            for first in range(2, 202, 10):
                event_id = uuid4()
                for _ in range(3):
                    await device.send(first, first + 9, event_id)
            await device.send_until_acked(201)
            await assert_exactly_once(edge_pool, device.stream, 201)

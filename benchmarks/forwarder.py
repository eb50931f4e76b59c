"""The whole node-forwarder: samples go in over its socket while its broker is away, and out over MQTT when that comes."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import MqttEnvelope, payload_of
from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.device.handover import Row
from farmiq.edge.ingress_gateway.broker_logins import device_rights
from farmiq.kit.mqtt import MqttClient
from farmiq.stack.mosquitto import Mosquitto
from farmiq.stack.mosquitto_users import MqttUser, gateway_rights
from farmiq.stack.ports import free_port
from node import BARN, CHANNELS, FARM, TENANT, Node
from processes import server

_LOOK_SECONDS = 0.05
_EPOCH = UUID(int=1)


class Forwarder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._device = MqttUser(
            "node-1", secrets.token_urlsafe(16), device_rights(TENANT, FARM, BARN, "node-1"), has_fixed_id=True
        )
        self._edge = MqttUser("edge", secrets.token_urlsafe(16), gateway_rights())
        self._broker = Mosquitto(
            folder / "mosquitto", free_port(), secrets.token_urlsafe(16), (self._device, self._edge)
        )
        self._node = Node(folder / "node", "node-1", self._broker.url(self._device.name, self._device.password))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Forwarder"]:
        await asyncio.to_thread(self._folder.mkdir)
        async with self._node.running():
            yield self

    async def take(self, samples: int, group: int) -> float:
        """Samples a second."""
        rows = _rows(samples)
        begun_at = time.perf_counter()
        for start in range(0, samples, group):
            await self._node.hand_over(rows[start : start + group])
        return samples / (time.perf_counter() - begun_at)

    async def replay(self, samples_max: int, seconds_max: float) -> tuple[int, float]:
        """The broker comes, and an edge that acknowledges what it hears. How many samples came, the most memory meanwhile."""
        heard, resident_mb = 0, 0.0
        give_up_at = time.monotonic() + seconds_max
        async with server(self._broker, self._folder / "mosquitto.log"), self._answering_edge() as edge:
            while heard < samples_max and time.monotonic() < give_up_at:
                messages = await edge.next_batch(100, _LOOK_SECONDS)
                batches = [payload_of(decode(MqttEnvelope, each.payload, max_bytes=1 << 20)) for each in messages]
                for batch in batches:
                    if isinstance(batch, TelemetryBatch) and batch.seq0 <= heard + 1:
                        heard = max(heard, batch.last_seq)
                        stream_id = batch.stream_id
                edge.acknowledge(messages)
                if heard:
                    ack = DeviceAck(epoch=_EPOCH, ts=datetime.now(UTC), stream_id=stream_id, acked_seq=heard)
                    await edge.publish("iot/node-1/ack", encode(ack))
                resident_mb = max(resident_mb, self.resident_mb())
        if heard == 0:
            raise self._node.failure("it sent nothing to a broker that had come back")
        return heard, resident_mb

    def resident_mb(self) -> float:
        return float(self._node.process.memory_info().rss / 1e6)

    @asynccontextmanager
    async def _answering_edge(self) -> AsyncIterator[MqttClient]:
        url = self._broker.url(self._edge.name, self._edge.password)
        edge = MqttClient(url, client_id="edge", subscriptions=["iot/telemetry/#"], clean_session=True)
        await edge.start()
        try:
            await edge.wait_connected()
            yield edge
        finally:
            await edge.stop()


def _rows(samples: int) -> list[Row]:
    """Ten channels every millisecond, in the order that the protocol asks for."""
    noon_us = 1_735_732_800_000_000
    return [
        (noon_us + at // CHANNELS * 1000, at // CHANNELS * 1000, at % CHANNELS, 2, 20.0 + at % 97 / 7)
        for at in range(samples)
    ]

"""Many nodes at their steady rate, all played by one MQTT connection."""

import asyncio
import time
from dataclasses import dataclass
from uuid import UUID, uuid4

from edge import Costs, Edge
from farmiq.contracts import event_types, topics
from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import mqtt_envelope
from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id, new_trace_id
from farmiq.kit.mqtt import MqttClient
from node import BARN, CHANNELS, FARM, TENANT
from processes import until


@dataclass
class Steady:
    nodes: int
    sent: int
    seconds: float
    ack_seconds: list[float]
    costs: dict[str, dict[str, float]]


class ManyNodes:
    """Each sends ten samples every second, spread over it, and hears its own acknowledgements."""

    def __init__(self, edge: Edge, count: int) -> None:
        self._streams = {f"n{number}": uuid4() for number in range(count)}
        self._device_of = {stream_id: device_id for device_id, stream_id in self._streams.items()}
        self._mqtt = MqttClient(edge.nodes_url, client_id="nodes", subscriptions=["iot/+/ack"], clean_session=True)
        self._sent_at: dict[tuple[UUID, int], float] = {}
        self.ack_seconds: list[float] = []
        self.sent = 0

    @property
    def device_ids(self) -> list[str]:
        return list(self._streams)

    async def send(self, seconds: float) -> float:
        """Until all is acknowledged; how long that took."""
        await self._mqtt.start()
        await self._mqtt.wait_connected()
        hearing = asyncio.create_task(self._hear())
        begun_at = time.monotonic()
        pause = 1.0 / len(self._streams)
        turn = 0
        while (at := begun_at + turn * pause) < begun_at + seconds:
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            device_id = f"n{turn % len(self._streams)}"
            await self._publish(device_id, turn // len(self._streams))
            turn += 1
        async with asyncio.timeout(120):
            await until(self._is_settled)
        took = time.monotonic() - begun_at
        await self._mqtt.stop()
        await hearing
        return took

    async def _is_settled(self) -> bool:
        return not self._sent_at

    async def _publish(self, device_id: str, tick: int) -> None:
        stream_id = self._streams[device_id]
        now_us = time.time_ns() // 1000
        batch = TelemetryBatch(
            stream_id=stream_id, boot_id=stream_id, lane="live", seq0=tick * CHANNELS + 1, time_quality=2,
            channels=[Channel(metric="temperature", unit="C", sensor=f"t{number}") for number in range(CHANNELS)],
            t=[now_us] * CHANNELS, c=list(range(CHANNELS)), v=[20.0 + number for number in range(CHANNELS)],
        )  # fmt: skip
        envelope = mqtt_envelope(
            batch, event_id=new_id(), event_type=event_types.TELEMETRY_BATCH, tenant_id=TENANT, device_id=device_id,
            ts=Clock().now(), trace_id=new_trace_id(),
        )  # fmt: skip
        topic = topics.TelemetryBatchTopic(tenant_id=TENANT, farm_id=FARM, barn_id=BARN, device_id=device_id).path
        self._sent_at[stream_id, batch.last_seq] = time.monotonic()
        self.sent += CHANNELS
        await self._mqtt.publish(topic, encode(envelope))

    async def _hear(self) -> None:
        while messages := await self._mqtt.next_batch(1000, 0.0):
            now = time.monotonic()
            for message in messages:
                ack = decode(DeviceAck, message.payload, max_bytes=1 << 20)
                if ack.stream_id is not None and ack.acked_seq is not None:
                    self._settle(ack.stream_id, ack.acked_seq, now)
            self._mqtt.acknowledge(messages)

    def _settle(self, stream_id: UUID, acked_seq: int, now: float) -> None:
        for seq in range(acked_seq, 0, -CHANNELS):
            sent_at = self._sent_at.pop((stream_id, seq), None)
            if sent_at is None:
                return
            self.ack_seconds.append(now - sent_at)


async def steady(edge: Edge, database_url: str, count: int, seconds: float) -> Steady:
    nodes = ManyNodes(edge, count)
    await edge.register(nodes.device_ids)
    async with edge.broker_running(), edge.gateway(database_url):
        await edge.until_gateway_is_ready()
        costs = Costs(edge.processes)
        took = await nodes.send(seconds)
        used = costs.by_process()
    return Steady(count, nodes.sent, took, nodes.ack_seconds, used)

"""A node-forwarder in a process of its own, an agent's side of the socket, and an edge that answers as it is told."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from farmiq.contracts.ack import DeviceAck, EventAck, TimeResponse
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import MqttEnvelope, payload_of
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import TelemetryBatch, TelemetryLoss
from farmiq.device import handover
from farmiq.device.handover import ChannelName, Hello, Row, Samples
from farmiq.kit.mqtt import MqttClient
from farmiq.spool import Limits, Spool
from support.service_process import Death, ServiceProcess, service_process
from support.waiting import eventually

BOOT = UUID(int=77)
CHANNELS = [ChannelName("temperature", "C", "t1"), ChannelName("humidity", "%", "h1")]
NOON_US = 1_735_732_800_000_000


def rows(first: int, last: int) -> list[Row]:
    """Sample `n` has the value `n`."""
    return [(NOON_US + n * 1000, n * 1000, n % 2, 2, float(n)) for n in range(first, last + 1)]


def is_running(process: ServiceProcess) -> bool:
    """False once it has killed itself as appointed; fails when it ended in any other way."""
    try:
        process.wait_for_death(0)
    except subprocess.TimeoutExpired:
        return True
    return False


class Node:
    def __init__(self, folder: Path, run_folder: Path, mqtt_url: str = "mqtt://127.0.0.1:9") -> None:
        self.folder = folder
        self.spool_folder = folder / "spool"
        self.socket = folder / "run" / "forwarder.sock"
        self.mqtt_url = mqtt_url
        self.variables: dict[str, str] = {}
        self._run_folder = run_folder

    @property
    def environ(self) -> dict[str, str]:
        return {
            "TENANT_ID": "demo",
            "FARM_ID": "farm-1",
            "BARN_ID": "barn-1",
            "DEVICE_ID": "node-1",
            "MQTT_URL": self.mqtt_url,
            "NODE_FORWARDER_SOCKET": str(self.socket),
            "NODE_FORWARDER_SPOOL_DIR": str(self.spool_folder),
            "NODE_FORWARDER_KEEP_FREE_BYTES": "0",
            **self.variables,
        }

    @contextmanager
    def forwarder(self, dies: Death | None = None) -> Iterator[ServiceProcess]:
        with service_process(
            "node-forwarder", self.environ, self._run_folder, self.folder / "forwarder.log", dies
        ) as process:
            yield process

    @contextmanager
    def agent(self) -> Iterator[ServiceProcess]:
        with service_process("node-agent", self.environ, self._run_folder, self.folder / "agent.log") as process:
            yield process

    def kept(self) -> list[float]:
        """The values on the node's disk, in their order. The forwarder must have ended."""
        spool = Spool(self.spool_folder, Limits())
        values = [frame.value for frame in spool.reader().frames()]
        assert spool.losses.ranges() == []
        spool.close()
        return values


class Agent:
    """Speaks the agent's side by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    async def say(self, message: handover.FromAgent) -> handover.FromForwarder | None:
        return await self.say_bytes(handover.pack(message))

    async def say_bytes(self, data: bytes) -> handover.FromForwarder | None:
        self._writer.write(data)
        await self._writer.drain()
        return await handover.read_from_forwarder(self._reader)

    async def hand_over(self, samples: list[Row]) -> handover.FromForwarder | None:
        self._number += 1
        return await self.say(Samples(self._number, samples))


@asynccontextmanager
async def connected(node: Node, greeting: Hello | None = None) -> AsyncIterator[Agent]:
    """A connection, greeted unless the test wants to do that itself."""

    async def try_once() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            return await asyncio.open_unix_connection(str(node.socket))
        except OSError:
            return None

    opened = await eventually(try_once, what="the forwarder's socket")
    assert opened is not None
    agent = Agent(*opened)
    try:
        if greeting is not None:
            assert isinstance(await agent.say(greeting), handover.Welcome)
        yield agent
    finally:
        opened[1].close()
        with suppress(OSError):  # the forwarder may have been killed under it
            await opened[1].wait_closed()


class Edge:
    """Hears what the node publishes, and says only what the test makes it say."""

    def __init__(self, url: str) -> None:
        filters = ["iot/telemetry/#", "iot/event/#", "iot/status/#"]
        self._mqtt = MqttClient(url, client_id="edge", subscriptions=filters, clean_session=True)
        self.batches: list[TelemetryBatch] = []
        self.losses: list[tuple[UUID, TelemetryLoss]] = []
        self.states: list[DeviceStatus] = []
        self.time_quality: int | None = None  # None: an edge that knows no time requests

    @classmethod
    @asynccontextmanager
    async def listening(cls, url: str) -> AsyncIterator["Edge"]:
        edge = cls(url)
        await edge._mqtt.start()
        task = asyncio.create_task(edge._listen())
        await edge._mqtt.wait_connected()
        try:
            yield edge
        finally:
            await edge._mqtt.stop()
            await task

    async def _listen(self) -> None:
        while messages := await self._mqtt.next_batch(100, 0.0):
            for message in messages:
                envelope = decode(MqttEnvelope, message.payload, max_bytes=1 << 20)
                self._take(envelope)
                await self._respond_time(envelope)
            self._mqtt.acknowledge(messages)

    async def _respond_time(self, envelope: MqttEnvelope) -> None:
        status = payload_of(envelope)
        if isinstance(status, DeviceStatus) and status.time_request and self.time_quality is not None:
            now = datetime.now(UTC)
            response = TimeResponse(event_id=envelope.event_id, received_at=now, quality=self.time_quality)
            await self._mqtt.publish("iot/node-1/ack", encode(DeviceAck(epoch=UUID(int=501), ts=now, time=response)))

    def _take(self, envelope: MqttEnvelope) -> None:
        match payload_of(envelope):
            case TelemetryBatch() as batch:
                self.batches.append(batch)
            case TelemetryLoss() as loss:
                self.losses.append((envelope.event_id, loss))
            case DeviceStatus() as status:
                self.states.append(status)

    def sequences(self, lane: str | None = None) -> list[int]:
        """In the order of arrival."""
        chosen = [batch for batch in self.batches if lane in (None, batch.lane)]
        return [seq for batch in chosen for seq in range(batch.seq0, batch.last_seq + 1)]

    async def until_heard(self, first: int, last: int, lane: str | None = None) -> UUID:
        """Waits for these sequences; the stream they belong to."""

        async def heard() -> bool:
            return set(self.sequences(lane)) >= set(range(first, last + 1))

        await eventually(heard, what=f"samples {first} to {last} at the edge")
        return self.batches[0].stream_id

    def values(self) -> dict[int, float]:
        return {batch.seq0 + at: value for batch in self.batches for at, value in enumerate(batch.v)}

    async def acknowledge(
        self,
        stream_id: UUID,
        acked_seq: int,
        epoch: UUID,
        events: tuple[UUID, ...] = (),
        received: tuple[tuple[int, int], ...] = (),
    ) -> None:
        told = [EventAck(event_id=event_id, result="stored") for event_id in events]
        ack = DeviceAck(
            epoch=epoch,
            ts=datetime.now(UTC),
            stream_id=stream_id,
            acked_seq=acked_seq,
            received=list(received),
            events=told,
        )
        await self._mqtt.publish("iot/node-1/ack", encode(ack))

"""Agent and forwarder as real processes on a real disk, broker and socket; one of them is killed on both sides of an answer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import msgspec
import pytest

from farmiq.contracts.ack import DeviceAck
from farmiq.contracts.decoding import decode, encode
from farmiq.contracts.envelope import MqttEnvelope, payload_of
from farmiq.contracts.status import DeviceStatus
from farmiq.contracts.telemetry import TelemetryBatch
from farmiq.device import handover
from farmiq.kit.clock import Clock
from farmiq.kit.mqtt import Message, MqttClient
from farmiq.spool import Frame, Spool
from support.mosquitto import Broker
from support.service_process import ServiceProcess, service_process
from support.waiting import eventually, wait_for

pytestmark = pytest.mark.timeout(120)

BOOT = uuid4()
CHANNELS = [handover.ChannelName("temperature", "C", "t1"), handover.ChannelName("humidity", "%", "h1")]

BEFORE_SYNC = ("farmiq.spool:Spool.sync", "before", 2)
AFTER_SYNC = ("farmiq.spool:Spool.sync", "after", 2)
AFTER_ANSWER = ("farmiq.device.node_forwarder.intake:_say", "after", 3)


def rows(first: int, last: int) -> list[handover.Row]:
    return [(1_790_000_000_000_000 + at, at, at % 2, 2, float(at)) for at in range(first, last + 1)]


class Node:
    """The environment of one node, and the processes in it."""

    def __init__(self, folder: Path, broker: Broker, run_folder: Path) -> None:
        self.spool_folder = folder / "spool"
        self.socket = folder / "s" / "f.sock"
        self._folder = folder
        self._run_folder = run_folder
        self._stack = ExitStack()
        self._count = 0
        self.environ = {
            "TENANT_ID": "demo",
            "FARM_ID": "farm-1",
            "BARN_ID": "barn-1",
            "DEVICE_ID": "node-1",
            "MQTT_URL": broker.url("node-1"),
            "NODE_FORWARDER_SOCKET": str(self.socket),
            "NODE_FORWARDER_SPOOL_DIR": str(self.spool_folder),
            "NODE_FORWARDER_KEEP_FREE_BYTES": "0",
            "NODE_FORWARDER_RESEND_SECONDS": "1",
            "SAMPLE_INTERVAL_MS": "20",
        }

    def start(self, service: str, dies: tuple[str, str, int] | None = None) -> ServiceProcess:
        self._count += 1
        log = self._folder / f"{service}-{self._count}.log"
        return self._stack.enter_context(service_process(service, self.environ, self._run_folder, log, dies))

    def stop_all(self) -> None:
        self._stack.close()

    def stored(self) -> list[Frame]:
        """What a start of the forwarder would find. Only while none runs."""
        spool = Spool(self.spool_folder)
        try:
            return list(spool.reader().frames())
        finally:
            spool.release()

    def status(self) -> DeviceStatus | None:
        path = self.spool_folder / "status.json"
        return msgspec.json.decode(path.read_bytes(), type=DeviceStatus) if path.exists() else None


@pytest.fixture
def node(tmp_path: Path, mosquitto: Broker, run_folder: Path) -> Iterator[Node]:
    node = Node(tmp_path, mosquitto, run_folder)
    yield node
    node.stop_all()


class Agent:
    """A producer that speaks the protocol by hand, so that a test knows exactly what was answered."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, last: handover.Position | None
    ) -> None:
        self.last = last
        self._reader = reader
        self._writer = writer

    async def offer(self, number: int, samples: list[handover.Row]) -> bool:
        """True only if the forwarder answered that they are stored."""
        try:
            self._writer.write(handover.pack(handover.Samples(number, samples)))
            await self._writer.drain()
            return await handover.read_from_forwarder(self._reader) == handover.Stored(number)
        except ConnectionError:
            return False


@asynccontextmanager
async def agent_of(node: Node) -> AsyncIterator[Agent]:
    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            return await asyncio.open_unix_connection(str(node.socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return None

    connection = await eventually(connect, what="the forwarder's socket")
    assert connection is not None
    reader, writer = connection
    writer.write(handover.pack(handover.Hello(BOOT, CHANNELS)))
    welcome = await handover.read_from_forwarder(reader)
    assert isinstance(welcome, handover.Welcome)
    try:
        yield Agent(reader, writer, welcome.last)
    finally:
        writer.close()


class Edge:
    """The edge as the node sees it: takes batches, and acknowledges what it is told to."""

    def __init__(self, broker: Broker) -> None:
        self.epoch = uuid4()
        self.samples: dict[int, float] = {}
        self.deliveries = 0
        self.states: list[str] = []
        self._mqtt = MqttClient(broker.url("edge"), client_id="edge", subscriptions=["iot/telemetry/#", "iot/status/#"])
        self._stream: UUID | None = None

    async def __aenter__(self) -> "Edge":
        await self._mqtt.start()
        await self._mqtt.wait_connected()
        self._taking = asyncio.create_task(self._take())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._taking.cancel()
        await self._mqtt.stop()

    async def acknowledge(self, acked_seq: int, received: list[tuple[int, int]] | None = None) -> None:
        ack = DeviceAck(
            epoch=self.epoch, ts=Clock().now(), stream_id=self._stream, acked_seq=acked_seq, received=received or []
        )
        await self._mqtt.publish("iot/node-1/ack", encode(ack))

    async def holds(self, last: int) -> None:
        async def is_complete() -> bool:
            return self.samples.keys() >= set(range(1, last + 1))

        await eventually(is_complete, 30.0, f"samples 1 to {last} at the edge")

    async def _take(self) -> None:
        while messages := await self._mqtt.next_batch(100, 0.0):
            for message in messages:
                self._take_one(message)
            self._mqtt.acknowledge(messages)

    def _take_one(self, message: Message) -> None:
        envelope = decode(MqttEnvelope, message.payload, max_bytes=1 << 20)
        payload = payload_of(envelope)
        if isinstance(payload, DeviceStatus):
            self.states.append(payload.state)
        elif isinstance(payload, TelemetryBatch):
            self._stream = payload.stream_id
            self.deliveries += 1
            for at, value in enumerate(payload.v):
                assert self.samples.setdefault(payload.seq0 + at, value) == value, "one sequence, two values"


@pytest.mark.parametrize("dies", [BEFORE_SYNC, AFTER_SYNC, AFTER_ANSWER])
async def test_forwarder_killed_around_its_answer_keeps_every_acknowledged_sample_once(
    node: Node, dies: tuple[str, str, int]
) -> None:
    forwarder = node.start("node-forwarder", dies)
    async with agent_of(node) as agent:
        assert await agent.offer(1, rows(1, 10))
        await agent.offer(2, rows(11, 20))
        await asyncio.to_thread(forwarder.wait_for_death)
    node.start("node-forwarder")
    async with agent_of(node) as agent:
        assert agent.last is not None
        assert agent.last.monotonic_us in (10, 20)
        assert await agent.offer(2, rows(11, 20)), "sent again, because its answer may never have come"
        assert await agent.offer(3, rows(21, 30))
    await asyncio.to_thread(node.stop_all)
    assert [frame.value for frame in node.stored()] == [float(at) for at in range(1, 31)]


async def test_agent_and_forwarder_killed_in_turn_capture_each_tick_once(node: Node, mosquitto: Broker) -> None:
    forwarder = node.start("node-forwarder", ("farmiq.spool:Spool.sync", "after", 40))
    agent = node.start("node-agent", ("farmiq.device.node_agent.backlog:Backlog.stored", "before", 20))
    async with Edge(mosquitto) as edge:
        await asyncio.to_thread(agent.wait_for_death)
        node.start("node-agent")
        await asyncio.to_thread(forwarder.wait_for_death)
        node.start("node-forwarder")
        await edge.holds(300)
    await asyncio.to_thread(node.stop_all)
    frames = node.stored()
    assert [frame.seq for frame in frames] == list(range(1, len(frames) + 1))
    ticks = [(frame.monotonic_us, frame.channel) for frame in frames]
    assert len(set(ticks)) == len(ticks)


async def test_everything_captured_while_the_broker_was_away_arrives_when_it_is_back(
    node: Node, mosquitto: Broker
) -> None:
    async with Edge(mosquitto) as edge:
        node.start("node-forwarder")
        async with agent_of(node) as agent:
            assert await agent.offer(1, rows(1, 10))
            await edge.holds(10)
            await edge.acknowledge(10)
            await asyncio.to_thread(mosquitto.kill)
            for number in range(2, 52):
                assert await agent.offer(number, rows(number * 100, number * 100 + 99)), (
                    "captured with no broker at all"
                )
            await asyncio.to_thread(mosquitto.start)
            await edge.holds(10 + 50 * 100)


async def test_samples_are_sent_again_until_the_edge_acknowledges_and_then_no_more(
    node: Node, mosquitto: Broker
) -> None:
    async with Edge(mosquitto) as edge:
        node.start("node-forwarder")
        async with agent_of(node) as agent:
            assert await agent.offer(1, rows(1, 10))
            await edge.holds(10)

            async def came_again() -> bool:
                return edge.deliveries >= 3

            await eventually(came_again, 30.0, "the same samples again")
            await edge.acknowledge(10)
            await asyncio.to_thread(
                wait_for, lambda: (node.status() or DeviceStatus(state="offline")).last_acked_seq == 10
            )


async def test_an_absurd_acknowledgement_is_refused_and_deletes_nothing(node: Node, mosquitto: Broker) -> None:
    async with Edge(mosquitto) as edge:
        forwarder = node.start("node-forwarder")
        async with agent_of(node) as agent:
            assert await agent.offer(1, rows(1, 10))
            await edge.holds(10)
            await edge.acknowledge(5)
            await edge.acknowledge(10**9)
            await asyncio.to_thread(wait_for, lambda: "ack_refused" in forwarder.log_text())
            status = node.status()
            assert status is not None
            assert status.last_acked_seq in (0, 5)
    await asyncio.to_thread(node.stop_all)
    assert len(node.stored()) == 10


async def test_an_edge_restored_from_a_backup_gets_again_what_it_lacks(node: Node, mosquitto: Broker) -> None:
    async with Edge(mosquitto) as edge:
        node.start("node-forwarder")
        async with agent_of(node) as agent:
            assert await agent.offer(1, rows(1, 20))
            await edge.holds(20)
            await edge.acknowledge(20)
            await asyncio.to_thread(
                wait_for, lambda: (node.status() or DeviceStatus(state="offline")).last_acked_seq == 20
            )
            edge.epoch = uuid4()
            edge.samples = {seq: value for seq, value in edge.samples.items() if seq <= 8}
            await edge.acknowledge(8)
            await edge.holds(20)


async def test_the_last_will_says_offline_when_the_forwarder_is_killed(node: Node, mosquitto: Broker) -> None:
    async with Edge(mosquitto) as edge:
        forwarder = node.start("node-forwarder", ("farmiq.spool:Spool.sync", "before", 1))

        async def is_last(state: str) -> bool:
            return edge.states[-1:] == [state]

        await eventually(lambda: is_last("online"), what="the status online")
        async with agent_of(node) as agent:
            await agent.offer(1, rows(1, 2))
        await asyncio.to_thread(forwarder.wait_for_death)
        await eventually(lambda: is_last("offline"), what="the last will")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (handover.Samples(1, [(0, 5, 7, 2, 1.0)]), "not announced"),
        (handover.Samples(1, [(0, 5, 0, 2, float("nan"))]), "not a number"),
        (handover.Samples(1, [(0, 5, 0, 2, 1.0), (0, 5, 0, 2, 1.0)]), "order"),
        (handover.Hello(BOOT, CHANNELS), "second greeting"),
    ],
)
async def test_a_producer_that_breaks_the_rules_is_told_why_and_the_next_one_is_served(
    node: Node, message: handover.FromAgent, reason: str
) -> None:
    node.start("node-forwarder")
    async with agent_of(node) as agent:
        agent._writer.write(handover.pack(message))
        answer = await handover.read_from_forwarder(agent._reader)
        assert isinstance(answer, handover.Refused)
        assert reason in answer.reason
    async with agent_of(node) as agent:
        assert agent.last is None
        assert await agent.offer(1, rows(1, 2))

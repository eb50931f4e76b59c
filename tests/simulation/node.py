"""A node: its disk, its agent and its forwarder, put together as their `main` does."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from farmiq.device.handover import ChannelName, Hello, Position, Row, Samples
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.delivery import _Line, deliver
from farmiq.device.node_agent.health import Health
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.intake import Seat, _converse
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.listener import listen
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.kit.lifecycle import Lifetime
from farmiq.spool import Limits, Range, Spool, SyncPolicy
from farmiq.spool.format import SampleFields
from farmiq.spool.retention import Plan
from simulation.broker import Hop, SimulatedClient
from simulation.machine import Machine
from simulation.process import PROCESS, Ended, Process
from support.forgetting_disk import Fault, ForgettingDisk, Kind, all_it_can

if TYPE_CHECKING:
    from simulation.world import World

T = TypeVar("T")
CHANNELS = [ChannelName("temperature", "C", "t1"), ChannelName("humidity", "%", "h1")]
BACKLOG_SAMPLES = 40


class WatchedSpool(Spool):
    """Writes down which value was tried for which sequence, the last one counting, and what was deleted without need."""

    written: dict[int, float]
    needless: list[str]

    def watch(self, written: dict[int, float], needless: list[str]) -> None:
        self.written, self.needless = written, needless
        self._make_room, self._keeper.make_room = self._keeper.make_room, self._watched_room  # type: ignore[method-assign]  # to look on

    def _watched_room(self, growth_bytes: int, *, is_disk_full: bool = False) -> Plan:
        used_bytes, acked_seq, limits = self._catalogue.used_bytes(), self.acked.seq, self._keeper.limits
        cap_bytes = used_bytes if is_disk_full else limits.max_spool_bytes
        plan = self._make_room(growth_bytes, is_disk_full=is_disk_full)
        left_bytes = self._catalogue.used_bytes() + growth_bytes
        self._check_need(plan, left_bytes, cap_bytes, acked_seq)
        held = self._catalogue.deletable
        spare_bytes = sum(segment.size_bytes for segment in held if segment.last_seq <= acked_seq)
        oldest_seconds = max(self._keeper._ages.held_seconds(held), default=0.0)
        if held and left_bytes > cap_bytes:
            self.needless.append(f"{left_bytes} bytes are kept, the cap is {cap_bytes}")
        if spare_bytes > limits.keep_acked_bytes:
            self.needless.append(f"{spare_bytes} acknowledged bytes are kept, {limits.keep_acked_bytes} may be")
        if limits.max_spool_seconds is not None and oldest_seconds > limits.max_spool_seconds:
            self.needless.append(f"{oldest_seconds:.1f} s are kept, {limits.max_spool_seconds} may be")
        return plan

    def _check_need(self, plan: Plan, left_bytes: int, cap_bytes: int, acked_seq: int) -> None:
        """What went, from the last one back: would there have been room for it?"""
        limits = self._keeper.limits
        acked_bytes = sum(one.size_bytes for one in self._catalogue.deletable if one.last_seq <= acked_seq)
        for segment in sorted(plan.doomed, key=lambda one: one.first_seq, reverse=True):
            is_acked = segment.last_seq <= acked_seq
            left_bytes += segment.size_bytes
            acked_bytes += segment.size_bytes if is_acked else 0
            is_spare = is_acked and acked_bytes > limits.keep_acked_bytes
            if (segment in plan.acked) != is_acked:
                self.needless.append(f"{segment.path.name} went as if it were the edge's, whose mark is {acked_seq}")
            if left_bytes <= cap_bytes and limits.max_spool_seconds is None and not is_spare:
                self.needless.append(f"{segment.path.name} went, with {left_bytes} of {cap_bytes} bytes")

    def append_many(self, samples: Iterable[SampleFields]) -> Range | None:
        given = list(samples)
        first_seq = self._writer.next_seq
        self.written.update({seq: sample[4] for seq, sample in enumerate(given, first_seq)})
        return super().append_many(given)


class WatchedBacklog(Backlog):
    """Writes down the samples that the agent was told are stored."""

    def __init__(self, accepted: set[float], make_id: Callable[[], UUID]) -> None:
        super().__init__(BACKLOG_SAMPLES, make_id)
        self._accepted = accepted

    def stored(self, number: int) -> bool:
        offered, is_ours = self._offered, super().stored(number)
        if is_ours and isinstance(offered, Samples):
            self._accept(offered.rows)
        return is_ours

    def resume_after(self, last: Position | None) -> None:
        before = self._offered
        super().resume_after(last)
        if isinstance(before, Samples):
            left = self._offered.rows if isinstance(self._offered, Samples) else []
            self._accept([row for row in before.rows if row not in left])

    def _accept(self, rows: list[Row]) -> None:
        self._accepted.update(row[4] for row in rows)


class NodeProcess(Process):
    """Its blocking calls are those on the spool, and each may be the one in which the disk fails or the power goes."""

    def __init__(self, name: str, node: "Node") -> None:
        super().__init__(name)
        self._node = node

    def block(self, work: Callable[[], T]) -> T:
        self.check()
        node = self._node
        try:
            with node.disk.in_use(node.next_fault()):
                return work()
        except Ended:
            node.ended_in_a_call()
            raise


class Node:
    def __init__(self, world: "World", device_id: str, number: int, folder: Path, limits: Limits) -> None:
        self.world = world
        self.device_id = device_id
        self.limits = limits
        self.machine = Machine(device_id, world.loop)
        self.disk = ForgettingDisk(folder)
        self.hop = Hop(device_id, world.chance)
        self.disk_trouble = 0.0
        self.disk_has_failed = False
        self.produced: set[float] = set()
        self.accepted: set[float] = set()
        self.written: dict[UUID, dict[int, float]] = {}
        self.needless: list[str] = []
        self.synced_seq = 0  # the highest that was ever synced
        self.is_sampling = True
        self.spool: WatchedSpool | None = None
        self.backlog: WatchedBacklog | None = None
        self.agent: Process | None = None
        self.forwarder: Process | None = None
        self._number = number
        self._has_power = False
        self._boot_id = world.new_id()
        self._door: Callable[[], tuple[asyncio.StreamReader, _Writer]] | None = None

    # Its life

    def boot(self) -> None:
        if self._has_power:
            return
        self._has_power = True
        self.machine.boot()
        self._boot_id = self.world.new_id()
        self.start_forwarder()
        self.start_agent()

    def start_agent(self) -> None:
        if self._has_power and (self.agent is None or not self.agent.is_alive):
            self.agent = self.world.start(Process(f"{self.device_id}-agent"), self._serve_agent)

    def start_forwarder(self) -> None:
        if self._has_power and (self.forwarder is None or not self.forwarder.is_alive):
            self.forwarder = self.world.start(NodeProcess(f"{self.device_id}", self), self._serve_forwarder)

    def kill_agent(self) -> None:
        if self.agent is not None:
            self.agent.end()

    def kill_forwarder(self) -> None:
        if self.forwarder is not None:
            self.forwarder.end()
            self.disk.end_process()
            self._forget_spool()

    def cut_power(self) -> None:
        self._has_power = False
        self.kill_agent()
        if self.forwarder is not None:
            self.forwarder.end()
        chance = self.world.chance
        self.disk.cut_power(all_it_can if chance.happens(0.5) else chance.randrange)
        self._forget_spool()

    def ended_in_a_call(self) -> None:
        """The fault met the process in the middle of a system call: a kill, or the end of the power."""
        self.world.note_fault("ended_in_a_system_call", device=self.device_id, call=self.disk.calls[-1])
        if self.world.chance.happens(0.6):
            self.cut_power()
            self.world.later(self.world.chance.seconds(1.0, 20.0), self.boot)
        else:
            self.kill_forwarder()
            self.world.later(self.world.chance.seconds(0.5, 10.0), self.start_forwarder)

    def next_fault(self) -> Fault | None:
        chance = self.world.chance
        if not chance.happens(self.disk_trouble):
            return None
        kinds = [Kind.ENDS_BEFORE, Kind.ENDS_IN_WRITE, Kind.SHORT_WRITE]
        if self.world.plan.has_disk_errors:
            kinds += [Kind.IO_ERROR, Kind.NO_SPACE]
        kind = chance.choice(kinds)
        self.disk_has_failed |= kind in (Kind.IO_ERROR, Kind.NO_SPACE)
        return Fault(kind, at_call=chance.choice([1, 1, 2, 2, 3, 5, 9]), calls=chance.randint(1, 4))

    def _forget_spool(self) -> None:
        if self.spool is not None:
            self.synced_seq = max(self.synced_seq, self.spool.synced_seq)
        self.spool = None
        self._door = None

    # The forwarder

    async def _serve_forwarder(self) -> None:
        world, process = self.world, PROCESS.get()
        assert process is not None
        life = Lifetime("node-forwarder", self.machine)
        settings = self._settings()
        messages = Messages(settings, life.clock)
        mqtt = SimulatedClient(
            world.broker, self.hop, client_id=self.device_id, subscriptions=[messages.ack_topic], clean_session=True
        )
        spool = await asyncio.get_running_loop().run_in_executor(None, self._open)
        self.spool = spool
        recorder = Recorder(spool, None, self.machine, settings.node_forwarder_sync_ms / 1000)  # type: ignore[arg-type]  # the loop needs no thread
        lanes = Lanes(spool.synced_seq, spool.acked.seq)
        publisher = Publisher(life, settings, mqtt, recorder, lanes, messages)
        await mqtt.start()
        seat = Seat()
        self._door = lambda: self._answer(process, recorder, seat)
        async with asyncio.TaskGroup() as group:
            group.create_task(life.until_stopped(publisher.send_live()))
            group.create_task(life.until_stopped(publisher.send_backlog()))
            group.create_task(life.until_stopped(publisher.send_losses()))
            group.create_task(life.until_stopped(listen(mqtt, recorder, lanes, publisher)))
            group.create_task(recorder.sync_behind(life))
            group.create_task(recorder.keep_house(life))

    def _open(self) -> WatchedSpool:
        spool = WatchedSpool(
            self.disk.root / "spool", self.limits, SyncPolicy.GROUP, new_id=self.world.new_id,
            wall_us=self.machine.wall_us, monotonic=self.machine.monotonic,
        )  # fmt: skip
        spool.watch(self.written.setdefault(spool.stream_id, {}), self.needless)
        return spool

    def _settings(self) -> ForwarderSettings:
        return ForwarderSettings(
            tenant_id="t", farm_id="f", barn_id="b", device_id=self.device_id, mqtt_url="mqtt://simulated:1883",
            node_forwarder_socket="", node_forwarder_spool_dir="", node_forwarder_batch_samples=self.world.plan.batch_samples,
            node_forwarder_resend_seconds=self.world.plan.resend_seconds,
            replay_msgs_per_sec=self.world.plan.replay_messages_per_second,
        )  # fmt: skip

    # The agent

    async def _serve_agent(self) -> None:
        life = Lifetime("node-agent", self.machine)
        self.backlog = backlog = WatchedBacklog(self.accepted, self.world.new_id)
        hello = Hello(self._boot_id, CHANNELS)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sample(backlog))
            group.create_task(deliver(life, self.device_id, hello, backlog, Health(backlog.news)))

    async def _sample(self, backlog: Backlog) -> None:
        quality = 2
        while True:
            await self.world.loop.pause(self.world.plan.sample_seconds)
            if not self.is_sampling:
                continue
            if self.world.chance.happens(0.02):
                quality = self.world.chance.randint(0, 3)
            for turn in range(self.world.plan.burst):
                backlog.add([self._row(turn, channel, quality) for channel in range(len(CHANNELS))])

    def _row(self, turn: int, channel: int, quality: int) -> Row:
        value = float(self._number * 1_000_000 + len(self.produced) + 1)
        self.produced.add(value)
        return self.machine.wall_us() + turn, round(self.machine.monotonic() * 1e6) + turn, channel, quality, value

    # The socket between them

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[_Line]:
        if self._door is None or self.forwarder is None or not self.forwarder.is_alive:
            raise ConnectionRefusedError("nobody listens")
        reader, writer = self._door()
        try:
            yield _Line(reader, writer)  # type: ignore[arg-type]  # as much of a writer as is used
        finally:
            writer.close()

    def _answer(self, process: Process, recorder: Recorder, seat: Seat) -> tuple[asyncio.StreamReader, "_Writer"]:
        """A conversation with the forwarder; answers the agent's end of it."""
        agent = PROCESS.get()
        assert agent is not None
        of_agent, of_forwarder = asyncio.StreamReader(), asyncio.StreamReader()
        to_forwarder, to_agent = _Writer(self.world, of_forwarder, process), _Writer(self.world, of_agent, agent)
        process.at_end.append(to_agent.close)
        agent.at_end.append(to_forwarder.close)
        context = process.context()
        talking: Any = _converse(of_forwarder, to_agent, recorder, seat)  # type: ignore[arg-type]  # as above
        context.run(lambda: asyncio.create_task(talking, context=context))
        return of_agent, to_forwarder


class _Writer:
    """As much of a StreamWriter as the handover uses, with the other end's reader behind it."""

    def __init__(self, world: "World", reader: asyncio.StreamReader, taker: Process) -> None:
        self._world = world
        self._reader = reader
        self._taker = taker
        self._clear_at = 0.0

    def write(self, data: bytes) -> None:
        self._later(self._feed, data)

    async def drain(self) -> None:
        """There is always room."""

    def close(self) -> None:
        self._later(self._end)

    async def wait_closed(self) -> None:
        """Closed at once."""

    def get_extra_info(self, _name: str) -> "_Writer":
        return self

    def getsockopt(self, *_option: int) -> bytes:
        return struct.pack("3i", os.getpid(), os.geteuid(), os.getegid())

    def _later(self, step: Callable[..., None], *args: Any) -> None:
        loop = self._world.loop
        self._clear_at = max(self._clear_at, loop.time() + self._world.chance.seconds(0.0001, 0.001))
        loop.call_at(self._clear_at, step, *args, context=self._taker.context())

    def _feed(self, data: bytes) -> None:
        if not self._reader.at_eof():
            self._reader.feed_data(data)

    def _end(self) -> None:
        self._reader.feed_eof()

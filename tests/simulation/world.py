"""One run: a farm made from a seed, faults for a while, then none, and a look at the books."""

import asyncio
import contextvars
import hashlib
import os
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import asyncpg

from farmiq.kit.errors import Fatal, Transient
from farmiq.spool import SpoolError
from simulation import cloud_tables, gateway_tables, measurement_tables, outbox_tables
from simulation.broker import Broker, Hop
from simulation.bus import Bus
from simulation.chance import Chance, Line, Trace, drawn_from
from simulation.cloud import serve_ingestion, serve_telemetry
from simulation.database import Database
from simulation.edge import serve_forwarder, serve_gateway
from simulation.faults import AREAS, Faults
from simulation.ledger import Ledger
from simulation.machine import Machine
from simulation.node import Node
from simulation.plan import Plan, draw
from simulation.process import PROCESS, Process
from simulation.uplink import Uplink
from simulation.virtual_loop import NothingLeft, VirtualLoop

REST_SECONDS_MAX = 1500.0
LOOK_SECONDS = 5.0
FRESH_SECONDS = 5.0
IN_MEMORY = Path("/dev/shm")

# What a service may end with: its supervisor starts it again. Anything else is a fault of ours.
_EXPECTED = (OSError, SpoolError, Transient, Fatal, asyncpg.PostgresError, asyncpg.InterfaceError)


@dataclass(frozen=True)
class Outcome:
    seed: int
    plan: Plan
    broken: list[str]
    figures: dict[str, Any]
    faults: int
    seconds: float
    lines: list[Line]

    @property
    def digest(self) -> str:
        """Of everything that happened: the same seed gives the same one."""
        return hashlib.blake2b("\n".join(map(str, self.lines)).encode(), digest_size=8).hexdigest()


class Service:
    def __init__(self, world: "World", kind: str, name: str, serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.kind = kind
        self.name = name
        self.process: Process | None = None
        self._world = world
        self._serve = serve

    def start(self) -> None:
        if self.process is None or not self.process.is_alive:
            self.process = self._world.start(Process(self.name), self._serve)

    def kill(self) -> None:
        if self.process is not None:
            self.process.end()

    def go_on(self) -> None:
        if self.process is not None and self.process.is_stopped:
            self.process.is_stopped = False
            self._world.loop.go_on(self.process)


class World:
    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = Chance(seed)
        self.loop = VirtualLoop(lambda: self.chance.seconds(0.0002, 0.01))
        self.trace = Trace(self.loop.time)
        self.plan = draw(self.chance, AREAS)
        self.striking = ""
        self.faults_met = 0
        self._arranged: list[tuple[asyncio.TimerHandle, Callable[[], None]]] = []
        self.failures: list[str] = []
        self.edge_machine = Machine("edge", self.loop)
        self.cloud_machine = Machine("cloud", self.loop)
        self.broker = Broker(self.loop, self.chance, self.trace)
        self.bus = Bus(self.loop, self.chance, self.trace)
        self.uplink = Uplink(self.loop, self.chance)
        self.gateway_hops = [Hop(f"gateway-{n}", self.chance) for n in range(1, self.plan.gateways + 1)]
        self.nodes = self._make_nodes(folder)
        places = {node.device_id: ("t", "f", "b", node.device_id) for node in self.nodes}
        self.edge_database = self._database(
            "edge", self.edge_machine,
            {**gateway_tables.STATEMENTS, **measurement_tables.STATEMENTS, **outbox_tables.STATEMENTS},
            {**gateway_tables.tables(self.new_id(), places), **measurement_tables.tables(), **outbox_tables.tables()},
        )  # fmt: skip
        self.dedupe_database = self._database(
            "cloud-dedupe",
            self.cloud_machine,
            cloud_tables.DEDUPE_STATEMENTS,
            cloud_tables.dedupe_tables(self.new_id(), self.cloud_machine.now()),
        )
        self.cloud_database = self._database(
            "cloud", self.cloud_machine,
            {**measurement_tables.STATEMENTS, **cloud_tables.SERVICE_STATEMENTS}, measurement_tables.tables(),
        )  # fmt: skip
        self.databases = [self.edge_database, self.dedupe_database, self.cloud_database]
        self.services = self._make_services()
        self.ledger = Ledger(self)
        self.faults = Faults(self)

    def new_id(self) -> UUID:
        return self.chance.new_id(self.loop.time())

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        handle = self.loop.call_later(seconds, do, context=_nobody())
        self._arranged.append((handle, do))

    def do_now_what_is_arranged(self) -> None:
        """Nothing is mended later than the rest."""
        arranged, self._arranged = self._arranged, []
        for handle, do in arranged:
            if not handle.cancelled() and handle.when() > self.loop.time():
                handle.cancel()
                do()

    def note_fault(self, kind: str, **details: object) -> None:
        self.faults_met += 1
        self.trace.note(f"FAULT {kind}", **details)

    def start(self, process: Process, serve: Callable[[], Coroutine[Any, Any, None]]) -> Process:
        """Under a supervisor, who starts again what failed."""
        context = process.context()
        task = context.run(lambda: self.loop.create_task(serve(), context=context))
        task.add_done_callback(lambda ended: self._ended(process, ended), context=_nobody())
        return process

    def _ended(self, process: Process, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or task.exception() is None or not process.is_alive:
            return
        error = task.exception()
        self.trace.note("service_failed", process=process.name, error=repr(error))
        if not all(isinstance(one, _EXPECTED) for one in _single(error)):
            self.failures.append(f"{process.name} failed: {[repr(one) for one in _single(error)]}")
        process.end()
        node = next((node for node in self.nodes if process is node.forwarder), None)
        if node is not None:
            node.kill_forwarder()
            self.later(1.0, node.start_forwarder)
        for service in self.services:
            if service.process is process:
                self.later(1.0, service.start)

    # The run

    async def live(self) -> None:
        for service in self.services:
            service.start()
        for node in self.nodes:
            node.boot()
        await self._suffer()
        self.faults.heal()
        self.trace.note("HEALED")
        # A node hears of a restored database with its next sample: so there are some after the last fault.
        await self.loop.pause(FRESH_SECONDS)
        for node in self.nodes:
            node.is_sampling = False
        await self._come_to_rest()
        self.ledger.look()
        self.ledger.settle_up()

    async def _suffer(self) -> None:
        look_at = LOOK_SECONDS
        while self.loop.time() < self.plan.chaos_seconds:
            await self.loop.pause(self.chance.expovariate(1 / self.plan.fault_seconds))
            self.striking = self.chance.choice(self.plan.kinds)
            self.faults.strike(self.striking)
            if self.loop.time() >= look_at:
                self.ledger.look()
                look_at = self.loop.time() + LOOK_SECONDS

    async def _come_to_rest(self) -> None:
        """What was arranged before may still come back late and heal, but nothing breaks any more."""
        until = self.loop.time() + REST_SECONDS_MAX
        while not self.ledger.is_at_rest():
            if self.loop.time() > until:
                self.ledger.broken.append(
                    f"not at rest {REST_SECONDS_MAX:.0f} s after the last fault: {self._restless()}"
                )
                return
            await self.loop.pause(1.0)
            if self.loop.time() % 30 < 1:
                self.ledger.look()

    def _restless(self) -> dict[str, object]:
        waiting = [
            row.status for row in self.edge_database.committed_tables()["outbox"].values() if row.status != "acked"
        ]
        nodes = {
            node.device_id: (node.spool.acked.seq, node.spool.synced_seq, len(node.spool.losses.outstanding()))
            for node in self.nodes
            if node.spool is not None
        }
        return {"outbox": len(waiting), "bus": len(self.bus.work), "nodes": nodes}

    def _make_nodes(self, folder: Path) -> list[Node]:
        nodes = []
        for number in range(1, self.plan.nodes + 1):
            place = folder / f"node-{number}"
            place.mkdir()
            nodes.append(Node(self, f"node-{number}", number, place, self.plan.limits))
        return nodes

    def _make_services(self) -> list[Service]:
        made = [
            Service(self, "gateway", hop.name, lambda hop=hop: serve_gateway(self, hop))  # type: ignore[misc]  # bound here
            for hop in self.gateway_hops
        ]
        made += [
            Service(self, "forwarder", f"forwarder-{n}", lambda n=n: serve_forwarder(self, f"forwarder-{n}"))  # type: ignore[misc]  # as above
            for n in range(1, self.plan.forwarders + 1)
        ]
        made += [
            Service(self, "entrance", f"entrance-{n}", lambda: serve_ingestion(self))
            for n in range(1, self.plan.entrances + 1)
        ]
        made += [
            Service(self, "store", f"store-{n}", lambda: serve_telemetry(self)) for n in range(1, self.plan.stores + 1)
        ]
        return made

    def _database(self, name: str, machine: Machine, statements: Any, tables: Any) -> Database:
        return Database(name, self.loop, self.chance, self.trace, machine, statements, tables)


def run(seed: int) -> Outcome:
    with tempfile.TemporaryDirectory(
        dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None, prefix="farmiq-sim-"
    ) as folder:
        world = World(seed, Path(folder))
        with drawn_from(world.chance, world.trace, world.loop.time), _local_sockets(world):
            try:
                world.loop.run_until_complete(world.live())
            except NothingLeft:
                world.failures.append("everybody waits for somebody else")
            finally:
                _leave(world)
    return Outcome(
        seed, world.plan, world.failures + world.ledger.broken, world.ledger.figures(), world.faults_met,
        world.loop.time(), world.trace.lines,
    )  # fmt: skip


def _leave(world: World) -> None:
    for node in world.nodes:
        node.cut_power()
    for service in world.services:
        service.kill()
    world.loop.finish()


@contextmanager
def _local_sockets(world: World) -> Iterator[None]:
    """The agent's socket is known by the name of its node."""
    doors = {node.device_id: node.connected for node in world.nodes}
    with patch("farmiq.device.node_agent.delivery._connected", lambda name: doors[name]()):
        yield


def _nobody() -> Any:
    context = contextvars.copy_context()
    context.run(PROCESS.set, None)
    return context


def _single(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [one for part in error.exceptions for one in _single(part)]
    return [error] if error else []

"""What breaks. Each kind is a method; it also arranges for its own end."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation import cloud_tables
from simulation.broker import Hop
from simulation.database import Database, Tables
from simulation.edge import LEASE_SECONDS
from simulation.machine import Machine
from simulation.process import Process

if TYPE_CHECKING:
    from simulation.world import Service, World


DAY, YEAR = 86_400.0, 365 * 86_400.0

AREAS: dict[str, tuple[str, ...]] = {
    "node": ("forwarder_killed", "agent_killed", "node_power_cut", "node_disk_troubled", "node_clock_jumped"),
    "lines": ("line_cut", "hop_cut", "hop_slowed", "broker_saved", "broker_crashed", "broker_repeated"),
    "gateway": ("gateway_killed", "gateway_stopped", "edge_database_crashed", "edge_database_troubled", "edge_clock_jumped"),
    "backups": ("edge_backed_up", "edge_restored"),
    "register": ("device_unregistered",),
    "outbox": ("sync_forwarder_killed", "sync_forwarder_stopped", "uplink_cut", "uplink_troubled", "edge_clock_jumped"),
    "cloud": (
        "entrance_killed", "dedupe_database_crashed", "dedupe_database_troubled", "bus_crashed", "bus_troubled", "store_killed",
        "cloud_database_crashed", "cloud_database_troubled",
    ),
    "cloud backups": ("cloud_backed_up", "cloud_restored", "cloud_set_back", "bus_lost"),
    "clocks": ("edge_clock_wrong", "cloud_clock_wrong", "edge_clock_right", "cloud_clock_right"),
}  # fmt: skip
"""The kinds of faults, by where they happen. A seed picks some of the areas, and of each some kinds."""


class Faults:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = world.chance
        self._backups: list[Tables] = []
        self._cloud_backups: list[tuple[Tables, Tables]] = []
        self._quiet_backup: tuple[Tables, Tables] | None = None

    def strike(self, kind: str) -> None:
        getattr(self, kind)()

    def heal(self) -> None:
        """Everything is as it should be from now on, except what has happened."""
        world = self._world
        world.do_now_what_is_arranged()
        for service in world.services:
            if service.process is not None:
                service.process.fuse = 0
        for machine in (world.edge_machine, world.cloud_machine, *(node.machine for node in world.nodes)):
            machine.ahead_seconds = 0.0

    # The node

    def forwarder_killed(self) -> None:
        node = self._chance.choice(self._world.nodes)
        node.kill_forwarder()
        self._back(node.start_forwarder, device=node.device_id)

    def agent_killed(self) -> None:
        node = self._chance.choice(self._world.nodes)
        node.kill_agent()
        self._back(node.start_agent, device=node.device_id)

    def node_power_cut(self) -> None:
        node = self._chance.choice(self._world.nodes)
        node.cut_power()
        self._back(node.boot, device=node.device_id)

    def node_disk_troubled(self) -> None:
        node = self._chance.choice(self._world.nodes)
        node.disk_trouble = self._chance.choice([0.02, 0.1, 0.3])

        def heal() -> None:
            node.disk_trouble = 0.0

        self._back(heal, device=node.device_id, share=node.disk_trouble)

    def node_clock_jumped(self) -> None:
        node = self._chance.choice(self._world.nodes)
        node.machine.ahead_seconds = self._chance.choice([-1e9, -3600.0, -1.0, 1.0, 3600.0, 4e8])
        self._note(device=node.device_id, seconds=node.machine.ahead_seconds)

    # The broker and the lines to it

    def line_cut(self) -> None:
        if lines := self._world.broker.lines:
            line = self._chance.choice(lines)
            line.cut()
            self._note(client=line.client.client_id)

    def hop_cut(self) -> None:
        hop = self._chance.choice(self._hops())
        hop.is_up = False
        for line in [line for line in self._world.broker.lines if line.hop is hop]:
            line.cut()

        def heal() -> None:
            hop.is_up = True

        self._back(heal, hop=hop.name)

    def hop_slowed(self) -> None:
        hop = self._chance.choice(self._hops())
        hop.slowness = self._chance.choice([10.0, 300.0, 2000.0])

        def heal() -> None:
            hop.slowness = 1.0

        self._back(heal, hop=hop.name, times=hop.slowness)

    def broker_saved(self) -> None:
        self._world.broker.save()
        self._note()

    def broker_crashed(self) -> None:
        broker = self._world.broker
        if broker.is_up:
            forgets_all = self._chance.happens(0.5)
            broker.crash(forgets_all=forgets_all)
            self._back(broker.start, forgets_all=forgets_all)

    def broker_repeated(self) -> None:
        self._world.broker.repeat()
        self._note()

    # The edge

    def gateway_killed(self) -> None:
        self._kill("gateway")

    def gateway_stopped(self) -> None:
        self._stop("gateway")

    def sync_forwarder_killed(self) -> None:
        self._kill("forwarder")

    def sync_forwarder_stopped(self) -> None:
        self._stop("forwarder")

    def edge_database_crashed(self) -> None:
        self._crash(self._world.edge_database)

    def edge_database_troubled(self) -> None:
        self._trouble(self._world.edge_database)

    def edge_backed_up(self) -> None:
        self._backups.append(self._world.edge_database.committed_tables())
        self._note()

    def edge_restored(self) -> None:
        """An old backup, with an epoch of its own, as the drill says."""
        if not self._backups:
            self.edge_backed_up()
            return
        world, backup = self._world, self._chance.choice(self._backups)
        world.edge_database.restore({**backup, "identity": {"epoch": world.new_id()}})
        world.ledger.edge_was_restored()
        self._back(world.edge_database.start, epoch=world.edge_database.tables["identity"]["epoch"])

    def device_unregistered(self) -> None:
        """By mistake: a person mends it."""
        device_id = self._chance.choice(self._world.nodes).device_id
        unregistered = self._world.edge_database.unregistered
        unregistered.add(device_id)
        self._back(lambda: unregistered.discard(device_id), device=device_id)

    def edge_clock_jumped(self) -> None:
        self._world.edge_machine.ahead_seconds = self._chance.choice([-60.0, -1.0, 1.0, 30.0, 120.0])
        self._note(seconds=self._world.edge_machine.ahead_seconds)

    # The clocks of edge and cloud, where nobody keeps them right

    def edge_clock_wrong(self) -> None:
        self._set_wrong(self._world.edge_machine)

    def cloud_clock_wrong(self) -> None:
        self._set_wrong(self._world.cloud_machine)

    def edge_clock_right(self) -> None:
        self._set_right(self._world.edge_machine)

    def cloud_clock_right(self) -> None:
        self._set_right(self._world.cloud_machine)

    def _set_wrong(self, machine: Machine) -> None:
        machine.ahead_seconds = self._chance.choice([-YEAR, -DAY, -60.0, 60.0, DAY, YEAR])
        self._note(seconds=machine.ahead_seconds)

    def _set_right(self, machine: Machine) -> None:
        machine.ahead_seconds = 0.0
        self._note()

    # The way to the cloud, and the cloud

    def uplink_cut(self) -> None:
        uplink = self._world.uplink
        uplink.is_up = False

        def heal() -> None:
            uplink.is_up = True

        self._back(heal)

    def uplink_troubled(self) -> None:
        uplink = self._world.uplink
        uplink.trouble, uplink.slowness = self._chance.choice([0.1, 0.4]), self._chance.choice([1.0, 30.0, 100.0])

        def heal() -> None:
            uplink.trouble, uplink.slowness = 0.0, 1.0

        self._back(heal, share=uplink.trouble, times=uplink.slowness)

    def entrance_killed(self) -> None:
        self._kill("entrance")

    def dedupe_database_crashed(self) -> None:
        self._crash(self._world.dedupe_database)

    def dedupe_database_troubled(self) -> None:
        self._trouble(self._world.dedupe_database)

    def bus_crashed(self) -> None:
        if self._world.bus.is_up:
            self._world.bus.crash()
            self._back(self._world.bus.start)

    def bus_troubled(self) -> None:
        bus = self._world.bus
        bus.trouble = self._chance.choice([0.05, 0.3])

        def heal() -> None:
            bus.trouble = 0.0

        self._back(heal, share=bus.trouble)

    def store_killed(self) -> None:
        self._kill("store")

    def cloud_database_crashed(self) -> None:
        self._crash(self._world.cloud_database)

    def cloud_database_troubled(self) -> None:
        self._trouble(self._world.cloud_database)

    def cloud_backed_up(self) -> None:
        """One database in two parts, at the same instant."""
        world = self._world
        if world.bus.is_empty:
            cloud_tables.mark(world.dedupe_database)
        backup = world.dedupe_database.committed_tables(), world.cloud_database.committed_tables()
        self._cloud_backups.append(backup)
        if world.bus.is_empty:
            self._quiet_backup = backup
        self._note(bus_is_empty=world.bus.is_empty)

    def cloud_restored(self) -> None:
        """On another machine: what was on the bus is gone with the old one."""
        backups = [backup for backup in self._cloud_backups if self._is_behind(backup[0])]
        if not backups:
            self.cloud_backed_up()
            return
        world = self._world
        dedupe, stored = self._chance.choice(backups)
        self._put_back(cloud_tables.restored(dedupe, world.new_id(), world.cloud_machine.now()), stored)
        world.bus.lose_all()

    def cloud_set_back(self) -> None:
        """A snapshot, a disk that lied: nobody says that anything is missing. The edge finds out, because it has had an answer
        since then. If it has not, only a moment will do when nothing was on the bus: what was accepted before it and stored
        after it would be missed by nobody."""
        states = self._world.edge_database.committed_tables()["sync_state"].values()
        heard = max((state.heard_answer for state in states), default=0)
        backups = [
            backup
            for backup in self._cloud_backups
            if all(row.answered < heard for row in backup[0]["answers"].values())
        ]
        backups = [backup for backup in [*backups, self._quiet_backup] if backup and self._is_behind(backup[0])]
        if not backups:
            self.cloud_backed_up()
            return
        self._put_back(*self._chance.choice(backups))

    def _is_behind(self, dedupe: Tables) -> bool:
        """Something was answered since: else nothing is lost, and nothing is tried."""
        now = self._world.dedupe_database.committed_tables()["answers"]
        return any(
            key not in dedupe["answers"] or dedupe["answers"][key].answered < row.answered for key, row in now.items()
        )

    def bus_lost(self) -> None:
        """RabbitMQ lost its disk, and sooner or later a person has everything sent again: `farmiq cloud resend`."""
        world = self._world
        world.bus.lose_all()
        world.ledger.cloud_went_back()

        def resend() -> None:
            dedupe = world.dedupe_database
            dedupe.restore(cloud_tables.restored(dedupe.committed_tables(), world.new_id(), world.cloud_machine.now()))
            dedupe.start()

        self._back(resend)

    def _put_back(self, dedupe: Tables, stored: Tables) -> None:
        world = self._world
        world.dedupe_database.restore(dedupe)
        world.cloud_database.restore(stored)
        world.ledger.cloud_went_back()

        def heal() -> None:
            world.dedupe_database.start()
            world.cloud_database.start()

        seconds = self._chance.seconds(0.2, 5.0)  # soon, so that there are answers from it before it goes back again
        self._note(back_in=round(seconds, 1))
        world.later(seconds, heal)

    # How they are done

    def _hops(self) -> list[Hop]:
        return [*(node.hop for node in self._world.nodes), *self._world.gateway_hops]

    def _kill(self, kind: str) -> None:
        """At once, or between two calls that it makes soon."""
        service = self._one(kind)
        process = service.process
        if process is None or not process.is_alive or process.fuse:
            return
        seconds = self._seconds()
        process.at_end.append(lambda: self._world.later(seconds, service.start))
        process.fuse = self._chance.choice([0, self._chance.randint(1, 25)])
        self._note(service=service.name, after_calls=process.fuse, back_in=round(seconds, 1))
        if not process.fuse:
            service.kill()

    def _stop(self, kind: str) -> None:
        """SIGSTOP for a while, which may be longer than a lease. Never inside a transaction: it would stop the model's
        whole database, where a real one would hold a few rows."""
        service = self._one(kind)
        process = service.process
        if process is None or not process.is_running or self._is_in_transaction(process):
            return
        process.is_stopped = True
        seconds = self._chance.choice([1.0, LEASE_SECONDS + 2.0, 2.0 * LEASE_SECONDS])
        self._note(service=service.name, back_in=seconds)
        self._world.later(seconds, service.go_on)

    def _is_in_transaction(self, process: Process) -> bool:
        return any(database.is_held_by(process) for database in self._world.databases)

    def _crash(self, database: Database) -> None:
        database.crash()
        self._back(database.start, database=database.name)

    def _trouble(self, database: Database) -> None:
        database.trouble = self._chance.choice([0.02, 0.1, 0.3])

        def heal() -> None:
            database.trouble = 0.0

        self._back(heal, database=database.name, share=database.trouble)

    def _one(self, kind: str) -> "Service":
        return self._chance.choice([one for one in self._world.services if one.kind == kind])

    def _back(self, heal: Callable[[], None], **details: object) -> None:
        seconds = self._seconds()
        self._note(**details, back_in=round(seconds, 1))
        self._world.later(seconds, heal)

    def _seconds(self) -> float:
        """How long something stays broken: as often less than three seconds as more."""
        return float(0.2 * 200.0 ** self._chance.random())

    def _note(self, **details: object) -> None:
        self._world.note_fault(self._world.striking, **details)

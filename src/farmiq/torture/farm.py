"""The farm under test: `farmiq up` in a home of its own, and the campaign's own devices beside it."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import asyncpg
import msgspec

from farmiq.contracts.services import SERVICES
from farmiq.kit.clock import Clock
from farmiq.kit.errors import Fatal
from farmiq.stack import control
from farmiq.stack.external import External
from farmiq.stack.home import Home
from farmiq.stack.keeper import Keeper
from farmiq.stack.ports import choose_ports
from farmiq.stack.private_files import remove
from farmiq.stack.rabbitmq import RabbitMq
from farmiq.stack.relay.client import RelayClient
from farmiq.stack.secrets import load_or_create
from farmiq.stack.servers import embedded_servers, server_ports
from farmiq.stack.state import StackState, read_state
from farmiq.torture.bus import POISONED
from farmiq.torture.clocks import TierClocks
from farmiq.torture.disks import SmallDisk
from farmiq.torture.forwarders import Forwarder, forwarder_of, keeper_of
from farmiq.torture.plan import Targets
from farmiq.torture.telling import Login

SENSOR, STATION = "torture-sensor", "torture-station"
HEALTHY_SECONDS_MAX = 240.0
DATABASE_SECONDS_MAX = 120.0
# Shorter than the longest pause: a forwarder that was stopped comes back to rows that belong to somebody else by then.
HARDER = {"OUTBOX_LEASE_SECONDS": "5"}
# What nobody restarts but a person: without it nothing heals, and it is not a service.
_SPARED = frozenset({"supervisor"})


class DeviceNotAdded(Fatal):
    """`farmiq device add` refused a device of the campaign."""


class Farm:
    def __init__(self, home: Home, nodes: int, clock: Clock, *, moves_clocks: bool = False) -> None:
        self.home = home
        self.environment: dict[str, str] = {}
        self.logins: dict[str, Login] = {}
        self.keepers: dict[str, Keeper] = {}
        self.disks: dict[str, SmallDisk] = {}
        self._forwarders: dict[str, Forwarder] = {}
        self.nodes = [f"torture-{number}" for number in range(1, nodes + 1)]
        self._clock = clock
        self.clocks = TierClocks(self.folder / "clocks")
        self._moves_clocks = moves_clocks

    @property
    def folder(self) -> Path:
        """The campaign's own: what `down --purge` of the farm leaves alone."""
        return self.home.path / "torture"

    @property
    def relay(self) -> RelayClient:
        return RelayClient(self.home.relay_socket)

    async def start(self, environ: Mapping[str, str]) -> None:
        chosen = {name: value for name, value in environ.items() if not name.endswith("_URL") and name != "S3_ENDPOINT"}
        self._choose_ports()
        moved = self.clocks.environment() if self._moves_clocks else {}
        control.start(self.home, HARDER | chosen | moved)
        await asyncio.to_thread(control.wait_until_healthy, self.home, _unseen, HEALTHY_SECONDS_MAX)
        self.environment = control.environment(self.home)
        self.folder.mkdir(parents=True, exist_ok=True)
        for device, kind in ((SENSOR, "sensor"), (STATION, "weigh-station"), *((name, "node") for name in self.nodes)):
            self.logins[device] = await self.add_device(device, kind)
        self.start_nodes()

    async def stop(self, *, keep: bool) -> None:
        """Everything that was started, whatever state it is in. Without `keep` nothing is left on the disk either."""
        for keeper in self.keepers.values():
            await keeper.stop()
        for disk in self.disks.values():
            disk.unmount()
        if not keep:
            await asyncio.to_thread(remove, [self.folder])
        await asyncio.to_thread(control.stop, self.home, purge=not keep)

    def targets(self, strangers: Sequence[str] = ()) -> Targets:
        children = [child.name for child in self.state().children]
        return Targets(
            processes=[*(name for name in children if name not in _SPARED), *self.keepers],
            links=[route.name for route in self.relay.look()],
            nodes=self.nodes,
            small_disks=list(self.disks),
            bus_events=POISONED,
            registered=[SENSOR, STATION, *self.nodes],
            # A disk of its own would have to be copied with what fills it.
            forwarders=[name for name in self.keepers if self.device_of(name) not in self.disks],
            strangers=strangers,
        )

    def rabbitmq(self) -> RabbitMq:
        ports = json.loads(self.home.ports_file.read_text(encoding="utf-8"))
        server = embedded_servers(self.home, External(), ports, load_or_create(self.home.secrets_file)).rabbitmq
        assert server is not None  # noqa: S101 - nothing of a campaign's farm is external
        return server

    def state(self) -> StackState:
        return read_state(self.home)

    def pid_of(self, name: str) -> int | None:
        """None while it does not run."""
        if name in self.keepers:
            return self.keepers[name].state.pid
        return next((child.pid for child in self.state().children if child.name == name), None)

    def is_healthy(self) -> bool:
        return self.state().is_healthy and all(keeper.state.state == "healthy" for keeper in self.keepers.values())

    def unwell(self) -> list[str]:
        late = [child for child in self.state().children if child.state != "healthy"]
        late += [keeper.state for keeper in self.keepers.values() if keeper.state.state != "healthy"]
        return [
            f"{child.name} is {child.state}: {child.problem or child.last_exit or 'no answer yet'}" for child in late
        ]

    async def fetch(self, tier: str, query: str, *arguments: object) -> "list[asyncpg.Record]":
        """From the database itself, past the relay."""
        connection = await asyncpg.connect(self.environment[f"{tier.upper()}_DATABASE_URL"], timeout=10)
        try:
            return await connection.fetch(query, *arguments)
        finally:
            await connection.close(timeout=5)

    async def fetch_patiently(self, tier: str, query: str, *arguments: object) -> "list[asyncpg.Record]":
        """The database is a target like any other, and may be dead or stopped at the moment."""
        deadline = time.monotonic() + DATABASE_SECONDS_MAX
        while True:
            try:
                async with asyncio.timeout(10):
                    return await self.fetch(tier, query, *arguments)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.2)

    async def command(self, *arguments: str) -> tuple[int, bytes, bytes]:
        """As a person would type it for this farm."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "farmiq.cli", *arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not name.endswith("_URL")}
            | {"FARMIQ_HOME": str(self.home.path)},
        )  # fmt: skip
        told, complaint = await process.communicate()
        return process.returncode or 0, told, complaint

    def _choose_ports(self) -> None:
        """Away from the standard ones, which belong to the farm that people use."""
        names = [*server_ports(External()), *(service.name for service in SERVICES if service.port is not None)]
        self.home.create()
        choose_ports(self.home.ports_file, dict.fromkeys(names))

    async def add_device(self, device: str, kind: str, tenant_id: str | None = None) -> Login:
        """Of the farm's own tenant, or of another one."""
        tenant = [] if tenant_id is None else ["--tenant", tenant_id]
        code, told, complaint = await self.command("device", "add", device, "--kind", kind, *tenant, "--json")
        if code:
            raise DeviceNotAdded(f"{device} could not be added: {complaint.decode(errors='replace')}")
        return msgspec.json.decode(told, type=Login)

    def device_of(self, forwarder: str) -> str:
        return self._forwarders[forwarder].login.device_id

    async def stop_forwarder(self, name: str) -> None:
        await self.keepers[name].stop()

    def start_forwarder(self, name: str) -> None:
        self.keepers[name] = keeper_of(self.home, self._forwarders[name], self._clock)
        self.keepers[name].start()

    def start_nodes(self) -> None:
        for number, device in enumerate(self.nodes):
            forwarder = forwarder_of(self.home, self.logins[device])
            if number == 0:  # one is enough: a full disk is the node's own trouble
                disk = SmallDisk(forwarder.spool)
                if disk.mount():
                    self.disks[device] = disk
            self._forwarders[forwarder.name] = forwarder
            self.start_forwarder(forwarder.name)


def _unseen(_: StackState) -> None:
    """Nobody watches it come up."""

"""Carries one fault of the plan out, and undoes it."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable

from farmiq.contracts.timestamps import to_us
from farmiq.kit.clock import Clock
from farmiq.stack.processes import Process, family_of, leftovers
from farmiq.stack.relay.client import RelayAway
from farmiq.stack.relay.faults import (
    Bandwidth,
    Faults,
    Latency,
    ResetPeer,
    RouteFaults,
    Slicer,
    Timeout,
    both_ways,
)
from farmiq.torture import setbacks
from farmiq.torture.farm import Farm
from farmiq.torture.generators import Jump, Order, Poison, Storm
from farmiq.torture.ledger import Filled, LedgerWriter
from farmiq.torture.plan import STRANGER_KINDS, Fault, Kind
from farmiq.torture.register import Register
from farmiq.torture.strangers import Strangers

RUNNING_SECONDS_MAX = 20.0
"""For a target that is just being started again. Then the fault is passed over, and counted as such."""
RELAY_SECONDS_MAX = 60.0

SIGNALS = {Kind.KILL: signal.SIGKILL, Kind.IMMEDIATE_STOP: signal.SIGQUIT}
LINK_FAULTS = {
    Kind.CUT: RouteFaults(down=True),
    Kind.HALF_OPEN: both_ways(Faults(timeout=Timeout())),
    Kind.SLOW: both_ways(
        Faults(latency=Latency(seconds=0.5, jitter_seconds=0.3), bandwidth=Bandwidth(bytes_per_second=40_000))
    ),
    Kind.RESET: both_ways(Faults(reset_peer=ResetPeer(seconds=0.2))),
    Kind.SLICED: both_ways(Faults(slicer=Slicer(average_bytes=200, variation_bytes=100, delay_seconds=0.001))),
}


class Inflictor:
    def __init__(
        self,
        farm: Farm,
        tell: Callable[[Order], None],
        poison_bus: Callable[[str], Awaitable[bool]],
        ledger: LedgerWriter,
        clock: Clock,
        strangers: Strangers | None = None,
    ) -> None:
        self._farm = farm
        self._strangers = strangers
        self._tell = tell
        self._ledger = ledger
        self._clock = clock
        self._register = Register(farm)
        self._of_kind: dict[Kind, Callable[[Fault], Awaitable[bool]]] = {
            Kind.PAUSE: lambda fault: self._pause(fault.target, fault.seconds),
            Kind.DISK_FULL: lambda fault: self._fill(fault.target, fault.seconds),
            Kind.POISON_BUS: lambda fault: poison_bus(fault.target),
            Kind.REGISTER: self._register.take_out,
            Kind.CLOUD_RESEND: lambda _: setbacks.resend(farm),
            Kind.RABBIT_LOST: self._lose_bus,
            Kind.CLOCK_EDGE: lambda fault: self._move_clock("edge", fault),
            Kind.CLOCK_CLOUD: lambda fault: self._move_clock("cloud", fault),
            Kind.DISK_BACK: lambda fault: setbacks.set_spool_back(farm, fault, ledger),
        }

    async def inflict(self, fault: Fault) -> bool:
        """Returns when it is undone. False: its target did not run, and nothing was done."""
        if fault.kind in LINK_FAULTS:
            return await self._break(fault)
        if fault.kind in STRANGER_KINDS:
            return self._strangers is not None and await self._strangers.attack(fault)
        if fault.kind in SIGNALS:
            return await self._signal(fault.target, SIGNALS[fault.kind])
        if fault.kind in self._of_kind:
            return await self._of_kind[fault.kind](fault)
        self._tell(_order(fault))
        return True

    async def heal(self) -> None:
        """Whatever may still be wrong."""
        await _until_taken(self._farm.relay.heal)
        for disk in self._farm.disks.values():
            disk.free()
        await self._register.put_back_all()
        for process in await asyncio.to_thread(leftovers, self._farm.home.path):
            process.signal(signal.SIGCONT)

    async def _process(self, name: str) -> Process | None:
        deadline = time.monotonic() + RUNNING_SECONDS_MAX
        while True:
            pid = self._farm.pid_of(name)
            # Found by the mark that every process of this farm carries: an id alone may be a stranger's by now.
            for process in await asyncio.to_thread(leftovers, self._farm.home.path) if pid else []:
                if process.pid == pid:
                    return process
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.1)

    async def _signal(self, name: str, number: signal.Signals) -> bool:
        process = await self._process(name)
        if process is not None:
            process.signal(number)
        return process is not None

    async def _pause(self, name: str, seconds: float) -> bool:
        """With all that it started: PostgreSQL's own process does none of the work."""
        process = await self._process(name)
        if process is None:
            return False
        family = await asyncio.to_thread(family_of, process)
        for member in family:
            member.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            for member in family:
                member.signal(signal.SIGCONT)
        return True

    async def _fill(self, device: str, seconds: float) -> bool:
        disk, began_us = self._farm.disks[device], to_us(self._clock.now())
        try:
            await asyncio.to_thread(disk.fill)
            await asyncio.sleep(seconds)
        finally:
            disk.free()
            self._ledger.note(Filled(device, began_us, to_us(self._clock.now())))
        return True

    async def _move_clock(self, tier: str, fault: Fault) -> bool:
        self._farm.clocks.move(tier, fault.clock_seconds)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._farm.clocks.move(tier, 0.0)
        return True

    async def _lose_bus(self, fault: Fault) -> bool:
        process = await self._process(fault.target)
        return process is not None and await setbacks.lose_bus(self._farm, process, self._ledger, self._clock)

    async def _break(self, fault: Fault) -> bool:
        relay = self._farm.relay
        await _until_taken(lambda: relay.change(fault.target, LINK_FAULTS[fault.kind]))
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            await _until_taken(lambda: relay.heal(fault.target))
        return True


def _order(fault: Fault) -> Order:
    match fault.kind:
        case Kind.CLOCK:
            return Jump(fault.target, fault.clock_seconds)
        case Kind.STORM:
            return Storm()
        case _:
            return Poison()


async def _until_taken(order: Callable[[], object]) -> None:
    """The relay is a target like any other, and may be dead or stopped when it gets its orders."""
    deadline = time.monotonic() + RELAY_SECONDS_MAX
    while True:
        try:
            await asyncio.to_thread(order)
        except RelayAway:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return

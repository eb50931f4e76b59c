"""When to sample: each device on a grid of the monotonic clock of its own, so that neither a slow sensor nor a clock that jumps
makes it drift, and a device that hangs holds up nobody else."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from farmiq.device.handover import Row
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.drivers import Channel, Driver, Fault, Pace, Reading
from farmiq.device.node_agent.health import Health
from farmiq.device.node_agent.plausibility import judged
from farmiq.device.node_agent.stamps import Stamps
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Group:
    """The channels of one device, and where they begin in the node's table."""

    name: str
    driver: Driver
    channels: Sequence[Channel]
    first_index: int
    pace: Pace


async def sample(life: Lifetime, group: Group, stamps: Stamps, backlog: Backlog, health: Health) -> None:
    """Until the service is asked to stop."""
    try:
        await life.until_stopped(_keep_sampling(life, group, stamps, backlog, health))
    finally:
        await group.driver.close()


def next_due(due_at: float, now: float, interval_seconds: float) -> float:
    """The next point of the grid that is still ahead: ticks that were missed are not made up for."""
    missed = max(0, int((now - due_at) // interval_seconds))
    return due_at + (missed + 1) * interval_seconds


async def read_all(group: Group) -> list[Reading]:
    """A reading for each channel, whatever the driver does."""
    try:
        async with asyncio.timeout(group.pace.guard_seconds):
            readings = list(await group.driver.read())
    except TimeoutError:
        return [Fault(f"{group.name} gave no answer within {group.pace.guard_seconds:g} s")] * len(group.channels)
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and must not take the others with it
        return [Fault(f"{group.name}: {type(error).__name__}: {error}")] * len(group.channels)
    if len(readings) != len(group.channels):
        fault = Fault(f"{group.name} answered {len(readings)} readings for {len(group.channels)} channels")
        return [fault] * len(group.channels)
    return [judged(channel, reading) for channel, reading in zip(group.channels, readings, strict=True)]


async def _keep_sampling(life: Lifetime, group: Group, stamps: Stamps, backlog: Backlog, health: Health) -> None:
    due_at = life.clock.monotonic()
    while True:
        readings = await read_all(group)
        if life.stopping.is_set():
            return  # the delivery may have gone: what would be added now, nobody would count
        _take(group, readings, stamps, backlog, health)
        due_at = next_due(due_at, life.clock.monotonic(), group.pace.interval_seconds)
        if not await life.pause(due_at - life.clock.monotonic()):
            return


def _take(group: Group, readings: Sequence[Reading], stamps: Stamps, backlog: Backlog, health: Health) -> None:
    # Stamped when the values are here, not when they were asked for: so samples of slow and quick devices enter the backlog in
    # the order of their times.
    stamp = stamps.now()
    rows: list[Row] = []
    for index, (channel, reading) in enumerate(zip(group.channels, readings, strict=True), group.first_index):
        if reading is None:
            continue
        health.note(index, channel, reading if isinstance(reading, Fault) else None)
        if not isinstance(reading, Fault):
            rows.append((stamp.wall_us, stamp.monotonic_us, index, stamp.quality, reading))
    is_more_of_the_same = backlog.is_losing
    if backlog.add(rows) and not is_more_of_the_same:
        log.error("backlog_overfilled", waiting=len(backlog), not_captured=backlog.not_captured)

"""When to sample: on the monotonic clock's own grid, so that neither a slow sensor nor a clock jump makes it drift."""

import time

from farmiq.device.handover import Row
from farmiq.device.node_agent.backlog import Backlog
from farmiq.device.node_agent.drivers.simulated import SimulatedBarn
from farmiq.device.node_agent.time_quality import time_quality
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger

log = get_logger(__name__)


async def sample(life: Lifetime, driver: SimulatedBarn, backlog: Backlog, interval_seconds: float) -> None:
    """Until the service is asked to stop."""
    due_at = life.clock.monotonic()
    while True:
        dropped = backlog.add(_read(life, driver))
        if dropped:
            log.error("samples_not_captured", count=dropped, total=backlog.not_captured)
        due_at = next_due(due_at, life.clock.monotonic(), interval_seconds)
        if not await life.pause(due_at - life.clock.monotonic()):
            return


def next_due(due_at: float, now: float, interval_seconds: float) -> float:
    """The next point of the grid that is still ahead: ticks that were missed are not made up for."""
    missed = max(0, int((now - due_at) // interval_seconds))
    return due_at + (missed + 1) * interval_seconds


def _read(life: Lifetime, driver: SimulatedBarn) -> list[Row]:
    now = life.clock.now()
    wall_us = int(now.timestamp()) * 1_000_000 + now.microsecond
    monotonic_us = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
    quality = time_quality()
    return [(wall_us, monotonic_us, channel, quality, value) for channel, value in driver.read(now)]

"""The relay's process: `python -m farmiq.stack.relay ROUTES_FILE`, started by the supervisor."""

import asyncio
import resource
import signal
import sys
from pathlib import Path
from random import Random

import msgspec

from farmiq.kit.clock import Clock
from farmiq.kit.logging import bind_service, configure, get_logger
from farmiq.stack.relay.control import Control
from farmiq.stack.relay.faults import HEALTHY
from farmiq.stack.relay.memory import Memory
from farmiq.stack.relay.program import Orders
from farmiq.stack.relay.route import Route

log = get_logger(__name__)


async def serve(orders: Orders, stopping: asyncio.Event) -> None:
    memory, clock, random = Memory(Path(orders.memory)), Clock(), Random()  # noqa: S311 - jitter, guards nothing
    told = memory.load()
    routes = [Route(spec, told.get(spec.name, HEALTHY), random, clock) for spec in orders.routes]
    control = Control(routes, memory, clock)
    for route in routes:
        await route.open()
    await control.open(Path(orders.socket))
    log.info("relay_started", routes={route.name: route.faults.names for route in routes})
    await stopping.wait()
    await control.close()
    for route in routes:
        await route.close()


async def run(orders: Orders) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await serve(orders, stopping)


def main() -> None:
    configure("INFO")
    bind_service("relay")
    # Each connection takes two descriptors, and the usual limit is for a thousand.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    orders = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Orders)
    asyncio.run(run(orders))


if __name__ == "__main__":
    main()

"""From the sensor to the cloud's database with the link up: how long a live sample takes.

node-forwarder, Mosquitto, edge-ingress-gateway, PostgreSQL, edge-sync-forwarder, cloud-ingestion, RabbitMQ,
cloud-telemetry-service, PostgreSQL: all real, with their default settings, on this machine. Beside it stands what the documents
ask for, a forwarder that looks every 60 seconds: a sample waits half of that in the middle, and nearly all of it at the 99th
percentile, before anything is sent.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloud import Cloud
from cloud_edge import EDGE
from edge import Edge
from farmiq.device.handover import Row
from farmiq.stack.ports import free_port
from harness import Progress, Result, arguments, compared, machine, quiet_logs, report, scratch, write_json
from node import CHANNELS, Node
from processes import service, until

POLL_SECONDS = 60.0  # SYNC_INTERVAL_MS of the documents
LOOK_SECONDS = 0.01
SECOND_US = 1_000_000
FIRST_SECONDS_MAX = 60.0
# Per tick, what the cloud shows of it. A tick's ten samples have one time, which is also its name.
_SHOWN = "SELECT DISTINCT occurred_at FROM telemetry_raw WHERE occurred_at > to_timestamp($1)"


@dataclass(frozen=True, slots=True)
class Plan:
    ticks_per_second: float
    seconds: float
    warm_ticks: int = 20


@dataclass
class Figures:
    seconds: list[float] = field(default_factory=list)


class Way:
    """One node at one end, the cloud's database at the other."""

    def __init__(self, folder: Path) -> None:
        for part in ("e", "c"):
            (folder / part).mkdir()
            (folder / part).chmod(0o755)
        self.edge = Edge(folder / "e")
        self.cloud = Cloud(folder / "c")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Node]:
        async with AsyncExitStack() as stack, AsyncExitStack() as beside:
            _, url = await asyncio.gather(self._open_cloud(beside), self._open_edge(stack))
            log_path = self.edge.folder / "sync.log"
            await stack.enter_async_context(service("edge-sync-forwarder", self._sync_environ(url), log_path))
            node = Node(self.edge.folder / "node", "node-1", self.edge.nodes_url)
            yield await stack.enter_async_context(node.running())

    async def _open_cloud(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(self.cloud.running())
        await stack.enter_async_context(self.cloud.telemetry_service())

    async def _open_edge(self, stack: AsyncExitStack) -> str:
        url = await stack.enter_async_context(self.edge.database())
        await self.edge.register(["node-1"])
        await stack.enter_async_context(self.edge.broker_running())
        await stack.enter_async_context(self.edge.gateway(url))
        await self.edge.until_gateway_is_ready()
        return url

    def _sync_environ(self, database_url: str) -> dict[str, str]:
        return {
            "DATABASE_URL": database_url,
            "CLOUD_INGESTION_URL": self.cloud.entrance_url,
            "CLOUD_INGESTION_TOKEN": self.cloud.token,
            "EDGE_CLUSTER_ID": EDGE,
            "PORT": str(free_port()),
        }

    async def take(self, node: Node) -> float:
        """Ten samples, now. Returns their time, as it is stored."""
        wall_us = time.time_ns() // 1000
        monotonic_us = time.monotonic_ns() // 1000
        await node.hand_over([self._row(wall_us, monotonic_us, channel) for channel in range(CHANNELS)])
        return wall_us / SECOND_US

    def _row(self, wall_us: int, monotonic_us: int, channel: int) -> Row:
        return (wall_us, monotonic_us, channel, 2, 20.0 + channel)


class Arrivals:
    """When each tick was first seen in the cloud's database, to 10 ms."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._newest = 0.0
        self.at: dict[float, float] = {}

    async def watch(self) -> None:
        while True:
            # A little back, because ticks may overtake each other on the way.
            rows = await self._cloud.pool.fetch(_SHOWN, max(0.0, self._newest - 5.0))
            now = time.time()
            for row in rows:
                self.at.setdefault(round(row["occurred_at"].timestamp(), 6), now)
            self._newest = max(self.at, default=0.0)
            await asyncio.sleep(LOOK_SECONDS)

    async def until_seen(self, ticks: Sequence[float]) -> None:
        async def are_all_there() -> bool:
            return all(tick in self.at for tick in ticks)

        async with asyncio.timeout(FIRST_SECONDS_MAX):
            await until(are_all_there)


async def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    way = Way(folder)
    progress.step("servers and services start")
    async with way.open() as node, asyncio.TaskGroup() as group:
        arrivals = Arrivals(way.cloud)
        watching = group.create_task(arrivals.watch())
        progress.step("the first samples find their way")
        await arrivals.until_seen([await way.take(node) for _ in range(plan.warm_ticks)])
        progress.step(f"live samples for {plan.seconds:.0f} s")
        ticks = await _take_steadily(way, node, plan)
        await arrivals.until_seen(ticks)
        watching.cancel()
    progress.end()
    return Figures([arrivals.at[tick] - tick for tick in ticks])


async def _take_steadily(way: Way, node: Node, plan: Plan) -> list[float]:
    loop, ticks = asyncio.get_running_loop(), []
    begun_at = loop.time()
    for number in range(int(plan.seconds * plan.ticks_per_second)):
        await asyncio.sleep(max(0.0, begun_at + number / plan.ticks_per_second - loop.time()))
        ticks.append(round(await way.take(node), 6))
    return ticks


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def outcome(figures: Figures) -> list[Result]:
    against = f"a look every {POLL_SECONDS:.0f} s"
    note = f"{len(figures.seconds)} ticks of {CHANNELS} samples, longest {max(figures.seconds):.2f} s"
    middle, most = statistics.median(figures.seconds), percentile(figures.seconds, 0.99)
    return [
        compared(
            "sensor_to_cloud_p50", {0: middle}, against, {0: 0.5 * POLL_SECONDS}, "s", is_better_below=True, note=note
        ),
        compared("sensor_to_cloud_p99", {0: most}, against, {0: 0.99 * POLL_SECONDS}, "s", is_better_below=True),
    ]


def plan_of(options: argparse.Namespace) -> Plan:
    return Plan(options.rate, options.seconds or (8.0 if options.quick else 120.0))


def main() -> int:
    parser = arguments(__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, help="of live samples")
    parser.add_argument("--rate", type=float, default=5.0, help="ticks of ten samples a second")
    options = parser.parse_args()
    plan = plan_of(options)
    quiet_logs()
    with scratch(options.folder) as folder:
        # PostgreSQL runs as another user when we are root, and has to get in.
        os.chmod(folder, 0o755)  # noqa: S103, PTH101 - nothing secret lies in the folder itself
        facts: dict[str, Any] = machine(folder)
        figures = asyncio.run(measure(plan, folder, Progress(3)))
    results = outcome(figures)
    report("From the sensor to the cloud", results, facts, [])
    if options.json:
        write_json(options.json, "bench_latency", results, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main())

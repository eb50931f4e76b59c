"""The edge's way in: a node's backlog from its spool through MQTT into PostgreSQL until it is acknowledged, with live samples
beside it; then many nodes at their steady rate.

The limit beside the drain is PostgreSQL itself: the same rows, packed beforehand, by COPY into the same table with the same
indexes on the same cluster, committed in groups of the same size. Everything runs on this machine at once.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from edge import Costs, Edge, origin_of
from farmiq.contracts.telemetry import Channel, TelemetryBatch
from farmiq.device.handover import Row
from farmiq.kit.clock import Clock
from farmiq.timeseries import store
from farmiq.timeseries.packed_rows import rows_of
from farmiq.timeseries.samples import StreamBatch
from harness import Progress, Result, arguments, compared, machine, quiet_logs, report, scratch, write_json
from many_nodes import Steady, steady
from node import CHANNELS, Node
from processes import until

BATCH = 500
COPY_GROUP = 10  # batches in one transaction: what the gateway gathers while it is busy
HAND_OVER = 10_000
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    samples: int
    rounds: int
    table_times: int  # how much larger the table is in the last round
    nodes: tuple[int, ...]
    steady_seconds: float


@dataclass
class Drained:
    samples_per_second: float
    live_seconds: list[float]
    costs: dict[str, dict[str, float]]


@dataclass
class Figures:
    drain: dict[int, float] = field(default_factory=dict)
    copy: dict[int, float] = field(default_factory=dict)
    drain_into_large: dict[int, float] = field(default_factory=dict)
    live_seconds: list[float] = field(default_factory=list)
    costs: dict[str, Any] = field(default_factory=dict)
    steady: list[Steady] = field(default_factory=list)


# --- What is stored ------------------------------------------------------------------------------------------------------------


def batches(samples: int, stream_id: UUID, ago_seconds: int) -> list[TelemetryBatch]:
    """Ten channels at 1 Hz, long ago enough that they end before now."""
    channels = [Channel(metric="temperature", unit="C", sensor=f"t{number}") for number in range(CHANNELS)]
    began_us = (int(time.time()) - ago_seconds) * SECOND_US
    return [
        TelemetryBatch(
            stream_id=stream_id, boot_id=stream_id, lane="replay", seq0=start + 1, time_quality=2, channels=channels,
            t=[began_us + at // CHANNELS * SECOND_US for at in range(start, min(start + BATCH, samples))],
            c=[at % CHANNELS for at in range(start, min(start + BATCH, samples))],
            v=[20.0 + at % 97 / 7 for at in range(start, min(start + BATCH, samples))],
        )
        for start in range(0, samples, BATCH)
    ]  # fmt: skip


async def bare_copy(edge: Edge, samples: int) -> float:
    """Samples a second of PostgreSQL alone. The rows stay, as those of a drain do."""
    stream_id, clock = uuid4(), Clock()
    packed = [
        rows_of(StreamBatch(origin_of("copy"), batch), (batch.seq0, batch.last_seq + 1), clock.now())
        for batch in batches(samples, stream_id, samples // CHANNELS)
    ]
    begun_at = time.perf_counter()
    async with edge.pool.acquire() as connection:
        for start in range(0, len(packed), COPY_GROUP):
            async with connection.transaction():
                await store.copy_rows(connection, packed[start : start + COPY_GROUP])
    return samples / (time.perf_counter() - begun_at)


# --- A node's backlog ----------------------------------------------------------------------------------------------------------


class Sensors:
    """Ten channels at 1 Hz: a past, handed over at once, and a present."""

    def __init__(self, node: Node, history: int) -> None:
        self.device_id = node.device_id
        self._node = node
        self._began_us = (int(time.time()) - history // CHANNELS) * SECOND_US
        self._taken = 0

    async def take_history(self, samples: int) -> None:
        for start in range(0, samples, HAND_OVER):
            ticks = min(HAND_OVER, samples - start) // CHANNELS
            times = [self._began_us + (self._taken // CHANNELS + tick) * SECOND_US for tick in range(ticks)]
            await self._node.hand_over([row for at in times for row in self._tick(at)])

    async def take_now(self) -> tuple[int, float]:
        """Ten live samples: the last one's sequence, and when they were taken."""
        taken_at = time.time()
        await self._node.hand_over(self._tick(int(taken_at * SECOND_US)))
        return self._taken, taken_at

    def _tick(self, wall_us: int) -> list[Row]:
        monotonic_us = (self._taken // CHANNELS + 1) * SECOND_US
        self._taken += CHANNELS
        return [(wall_us, monotonic_us, channel, 2, 20.0 + channel) for channel in range(CHANNELS)]


async def drain(edge: Edge, database_url: str, device_id: str, samples: int) -> Drained:
    """From the first batch until the edge holds all of it, with live samples every second."""
    await edge.register([device_id])
    node = Node(edge.folder / device_id, device_id, edge.nodes_url)
    async with node.running():
        sensors = Sensors(node, samples)
        await sensors.take_history(samples)
        with edge.counted("node-forwarder", node.process):
            return await drained(edge, database_url, sensors, samples)


async def drained(edge: Edge, database_url: str, sensors: Sensors, samples: int) -> Drained:
    # The gateway is there first: what is measured begins when a broker does.
    async with edge.gateway(database_url), edge.broker_running():
        costs, live = Costs(edge.processes), LiveSamples(edge, sensors)
        begun_at = await last_moment_without(edge, sensors.device_id)
        async with live.taken():
            await until_stored(edge, sensors.device_id, samples)
            seconds = time.perf_counter() - begun_at
        await live.until_all_stored()
        used = costs.by_process()
    return Drained(samples / seconds, live.seconds, used)


async def last_moment_without(edge: Edge, device_id: str) -> float:
    """How long gateway and node wait before they try the broker again is not what is measured: the clock starts when the
    database was last seen without a sample."""
    began_at = time.perf_counter()

    async def has_begun() -> bool:
        nonlocal began_at
        asked_at = time.perf_counter()
        if await edge.pool.fetchval(
            "SELECT true FROM streams WHERE device_id = $1 AND NOT isempty(received)", device_id
        ):
            return True
        began_at = asked_at
        return False

    await until(has_begun)
    return began_at


async def until_stored(edge: Edge, device_id: str, samples: int) -> None:
    query = "SELECT received @> int8range(1, $2, '[]') FROM streams WHERE device_id = $1"
    await until(lambda: edge.pool.fetchval(query, device_id, samples))


class LiveSamples:
    """Ten every second; `seconds` is from when each ten were taken until the database shows them, to 20 ms."""

    def __init__(self, edge: Edge, sensors: Sensors) -> None:
        self.seconds: list[float] = []
        self._edge = edge
        self._sensors = sensors
        self._waiting: list[tuple[int, float]] = []

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """While the block runs. The first are taken before it, so that a short drain has some too."""
        self._waiting.append(await self._sensors.take_now())
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._take()), group.create_task(self._look())]
            yield
            for task in tasks:
                task.cancel()

    async def until_all_stored(self) -> None:
        await until(self._is_all_stored)

    async def _is_all_stored(self) -> bool:
        await self._look_once()
        return not self._waiting

    async def _take(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self._waiting.append(await self._sensors.take_now())

    async def _look(self) -> None:
        while True:
            await self._look_once()
            await asyncio.sleep(0.02)

    async def _look_once(self) -> None:
        query = "SELECT coalesce(max(upper(span)) - 1, 0) FROM streams, unnest(received) AS span WHERE device_id = $1"
        highest = await self._edge.pool.fetchval(query, self._sensors.device_id)
        now = time.time()
        self.seconds += [now - taken_at for seq, taken_at in self._waiting if seq <= highest]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > highest]


# --- All of it -----------------------------------------------------------------------------------------------------------------


async def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    figures, edge = Figures(), Edge(folder)
    async with edge.database() as url:
        for number in range(plan.rounds):
            await measure_round(edge, url, plan, number, figures, progress)
        progress.step(f"the table grows {plan.table_times} times")
        while await edge.pool.fetchval("SELECT count(*) FROM telemetry_raw") < plan.table_times * plan.samples:
            await bare_copy(edge, plan.samples)
        await edge.pool.execute("VACUUM ANALYZE telemetry_raw")
        progress.step("drain into the large table")
        into_large = (await drain(edge, url, "large", plan.samples)).samples_per_second
        figures.drain_into_large = dict.fromkeys(figures.drain, into_large)
        for count in plan.nodes:
            progress.step(f"{count} nodes at their steady rate")
            await edge.pool.execute("TRUNCATE devices, streams CASCADE")
            figures.steady.append(await steady(edge, url, count, plan.steady_seconds))
    progress.end()
    return figures


async def measure_round(edge: Edge, url: str, plan: Plan, number: int, figures: Figures, progress: Progress) -> None:
    progress.step(f"round {number + 1} of {plan.rounds}: bare COPY")
    figures.copy[number] = await bare_copy(edge, plan.samples)
    progress.step(f"round {number + 1} of {plan.rounds}: drain")
    drained = await drain(edge, url, f"drain-{number}", plan.samples)
    figures.drain[number] = drained.samples_per_second
    figures.live_seconds += drained.live_seconds
    figures.costs["drain"] = drained.costs


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def outcome(figures: Figures) -> list[Result]:
    live = dict.fromkeys(figures.drain, percentile(figures.live_seconds, 0.99))
    one_second = dict.fromkeys(figures.drain, 1.0)
    results = [
        compared("ingest_drain", figures.drain, "bare COPY of the same rows", figures.copy, "samples/s"),
        compared(
            "ingest_drain_large_table", figures.drain_into_large, "the same into the small table", figures.drain,
            "samples/s",
        ),
        compared(
            "live_during_drain_p99", live, "one second", one_second, "s", is_better_below=True,
            note=f"p50 {statistics.median(figures.live_seconds):.2f} s of {len(figures.live_seconds)}",
        ),
    ]  # fmt: skip
    for run in figures.steady:
        rate, wanted = run.sent / run.seconds, float(run.nodes * CHANNELS)
        median, most = statistics.median(run.ack_seconds), percentile(run.ack_seconds, 0.99)
        note = f"published to acknowledged p50 {median * 1000:.0f} ms, p99 {most * 1000:.0f} ms"
        results.append(
            compared(f"ingest_steady_{run.nodes}", {0: rate}, "what they send", {0: wanted}, "samples/s", note=note)
        )
    return results


def cost_lines(figures: Figures) -> list[str]:
    runs = [("drain", figures.costs["drain"]), *((f"{run.nodes} nodes", run.costs) for run in figures.steady)]
    return [
        f"{name}: "
        + ", ".join(
            f"{process} {used['cpu_seconds']:.1f} s of CPU and {used['memory_mb']:.0f} MB"
            for process, used in costs.items()
        )
        for name, costs in runs
    ]


def plan_of(options: argparse.Namespace) -> Plan:
    if options.quick:
        return Plan(options.samples or 100_000, 1, 3, (100,), 4.0)
    return Plan(options.samples or 500_000, 3, 10, (100, 300, 1000), 20.0)


def main() -> int:
    parser = arguments(__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--samples", type=int, help="in a node's backlog")
    options = parser.parse_args()
    plan = plan_of(options)
    quiet_logs()
    progress = Progress(2 * plan.rounds + 2 + len(plan.nodes))
    with scratch(options.folder) as folder:
        # PostgreSQL runs as another user when we are root, and has to get in.
        os.chmod(folder, 0o755)  # noqa: S103, PTH101 - nothing secret lies in the folder itself
        facts = machine(folder)
        figures = asyncio.run(measure(plan, folder, progress))
    results = outcome(figures)
    report("Ingest", results, facts, cost_lines(figures))
    if options.json:
        costs = {f"steady_{run.nodes}": run.costs for run in figures.steady} | figures.costs
        write_json(options.json, "bench_ingest", results, facts, costs=costs)
    return 0


if __name__ == "__main__":
    sys.exit(main())

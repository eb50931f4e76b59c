"""The cloud's way in: batches of an edge over HTTP into cloud-ingestion, confirmed by RabbitMQ, until cloud-telemetry-service
has committed their rows. Once as packs of five hundred samples, once as single events.

Beside packs stands PostgreSQL itself: the same rows, packed beforehand, by COPY into the same table with the same indexes on the
same cluster. Beside single events stands the consumer that everybody writes first: one message, one commit, on aio-pika, with
its queue filled beforehand. Everything runs on this machine at once.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

import cloud_edge
from cloud import Cloud
from cloud_edge import NODES, PACK_SAMPLES, requests_of
from edge import Costs
from farmiq.kit.amqp import Outgoing, Publisher
from farmiq.kit.amqp_topology import Queue, Topology
from farmiq.kit.clock import Clock
from farmiq.timeseries import store
from farmiq.timeseries.packed_rows import rows_of
from harness import Progress, Result, arguments, compared, in_turn, machine, quiet_logs, report, scratch, write_json
from processes import NotStarted, until

COPY_GROUP = 10  # packs in one transaction, as in bench_ingest.py
PLAIN_QUEUE = "benchmark.plain.queue"
LIMIT_SECONDS = 300.0

Measure = Callable[["Cloud", "Plan", int, "Figures"], Awaitable[None]]


class WrongCount(Exception):
    """The services have stored more or less than they were sent. The message has both numbers."""


@dataclass(frozen=True, slots=True)
class Plan:
    samples: int
    events: int
    plain_events: int
    rounds: int


@dataclass
class Figures:
    packs: dict[int, float] = field(default_factory=dict)
    copy: dict[int, float] = field(default_factory=dict)
    singles: dict[int, float] = field(default_factory=dict)
    drained: dict[int, float] = field(default_factory=dict)
    plain: dict[int, float] = field(default_factory=dict)
    answered: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, Any] = field(default_factory=dict)


# --- Measuring -----------------------------------------------------------------------------------------------------------------


async def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    figures, cloud = Figures(), Cloud(folder)
    async with cloud.running():
        for number in range(plan.rounds):
            for title in in_turn(list(STEPS), number):
                progress.step(f"round {number + 1} of {plan.rounds}: {title}")
                await STEPS[title](cloud, plan, number, figures)
                await cloud.forget_what_nobody_reads()
    progress.end()
    return figures


async def measure_copy(cloud: Cloud, plan: Plan, number: int, figures: Figures) -> None:
    """PostgreSQL alone. The rows stay, as those of the services do."""
    now = Clock().now()
    packed = [rows_of(item, item.span, now) for item in cloud_edge.batches(plan.samples, f"copy{number}")]
    begun_at = time.perf_counter()
    async with cloud.pool.acquire() as connection:
        for start in range(0, len(packed), COPY_GROUP):
            async with connection.transaction():
                await store.copy_rows(connection, packed[start : start + COPY_GROUP])
    figures.copy[number] = plan.samples / (time.perf_counter() - begun_at)


async def measure_packs(cloud: Cloud, plan: Plan, number: int, figures: Figures) -> None:
    bodies = requests_of(cloud_edge.packs(cloud_edge.batches(plan.samples, f"packs{number}")))
    figures.packs[number] = await through(cloud, bodies, f"packs{number}", plan.samples, figures)


async def measure_singles(cloud: Cloud, plan: Plan, number: int, figures: Figures) -> None:
    bodies = requests_of(cloud_edge.singles(plan.events, f"singles{number}"))
    figures.singles[number] = await through(cloud, bodies, f"singles{number}", plan.events, figures)


async def through(cloud: Cloud, bodies: Sequence[bytes], devices: str, rows: int, figures: Figures) -> float:
    """Rows a second, from the first request until the last of them is committed."""
    async with asyncio.timeout(LIMIT_SECONDS), cloud.telemetry_service():
        await warm_up(cloud, devices)
        costs = Costs(cloud.processes)
        begun_at = time.perf_counter()
        await cloud_edge.send(cloud.entrance_url, cloud.token, bodies)
        answered_seconds = time.perf_counter() - begun_at
        await until_stored(cloud, devices, rows)
        seconds = time.perf_counter() - begun_at
        kind = devices.rstrip("0123456789")
        figures.costs[kind] = costs.by_process()
        figures.answered.setdefault(kind, []).append(answered_seconds / seconds)
    await check_rows(cloud, devices, rows)
    return rows / seconds


async def warm_up(cloud: Cloud, devices: str) -> None:
    """Connected on both sides of the bus: how long that takes is not what is measured."""
    await cloud_edge.send(cloud.entrance_url, cloud.token, requests_of(cloud_edge.singles(1, f"warm-{devices}")))
    await until_stored(cloud, f"warm-{devices}", 1)


async def measure_drain(cloud: Cloud, plan: Plan, number: int, figures: Figures) -> None:
    """The consumer alone: the entrance has done its part before the service is there."""
    devices = f"drain{number}"
    bodies = requests_of(cloud_edge.singles(plan.events, devices))
    await cloud_edge.send(cloud.entrance_url, cloud.token, bodies)
    async with asyncio.timeout(LIMIT_SECONDS), cloud.telemetry_service(is_awaited=False):
        await until(lambda: stored(cloud, devices))
        begun_at, before = time.perf_counter(), await stored(cloud, devices)
        await until_stored(cloud, devices, plan.events)
        figures.drained[number] = (plan.events - before) / (time.perf_counter() - begun_at)
    await check_rows(cloud, devices, plan.events)


async def measure_plain(cloud: Cloud, plan: Plan, number: int, figures: Figures) -> None:
    events = cloud_edge.singles(plan.plain_events, f"plain{number}")
    await fill_plain_queue(cloud.amqp_url, events)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).with_name("cloud_plain_consumer.py")), PLAIN_QUEUE, str(plan.plain_events),
        env={"PATH": os.environ["PATH"], "DATABASE_URL": cloud.database_url, "AMQP_URL": cloud.amqp_url},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, complaint = await process.communicate()
    if process.returncode:
        raise NotStarted(f"the plain consumer ended with {process.returncode}:\n{complaint.decode()[-2000:]}")
    figures.plain[number] = plan.plain_events / float(told)


async def fill_plain_queue(amqp_url: str, events: Sequence[bytes]) -> None:
    publisher = Publisher(amqp_url, name="benchmark", topology=Topology(queues=(Queue(PLAIN_QUEUE),)))
    await publisher.start()
    await publisher.wait_connected()
    messages = [Outgoing("", PLAIN_QUEUE, event, f"plain-{place}") for place, event in enumerate(events)]
    answers = await publisher.publish_many(messages)
    await publisher.stop()
    if any(answers):
        raise NotStarted(f"the plain consumer's queue could not be filled: {next(filter(None, answers))}")


async def stored(cloud: Cloud, devices: str) -> int:
    """From the daily aggregates, which the rows' own transaction writes: counting rows would cost what is measured."""
    query = "SELECT sum(count) FROM telemetry_agg WHERE device_id LIKE $1 || '-%' AND \"window\" = '1d'"
    return int(await cloud.pool.fetchval(query, devices) or 0)


async def until_stored(cloud: Cloud, devices: str, rows: int) -> None:
    async def is_there() -> bool:
        return await stored(cloud, devices) == rows

    await until(is_there)


async def check_rows(cloud: Cloud, devices: str, rows: int) -> None:
    counted = await cloud.pool.fetchval("SELECT count(*) FROM telemetry_raw WHERE device_id LIKE $1 || '-%'", devices)
    if counted != rows:
        raise WrongCount(f"{counted} rows of {devices} are there, and not {rows}")


STEPS: dict[str, Measure] = {
    "bare COPY": measure_copy,
    "packs": measure_packs,
    "single events": measure_singles,
    "single events that wait in the queue": measure_drain,
    "the plain consumer": measure_plain,
}


# --- The outcome ---------------------------------------------------------------------------------------------------------------


def outcome(figures: Figures) -> list[Result]:
    plain = "a plain aio-pika consumer"
    return [
        compared(
            "cloud_packs", figures.packs, "bare COPY of the same rows", figures.copy, "samples/s",
            note=answered_note(figures, "packs"),
        ),
        compared(
            "cloud_singles", figures.singles, plain, figures.plain, "events/s", note=answered_note(figures, "singles")
        ),
        compared(
            "cloud_singles_drain", figures.drained, plain, figures.plain, "events/s",
            note="both with their queue filled beforehand",
        ),
    ]  # fmt: skip


def answered_note(figures: Figures, kind: str) -> str:
    return f"all answered after {statistics.median(figures.answered[kind]):.0%} of the time"


def cost_lines(figures: Figures) -> list[str]:
    return [
        f"{name}: "
        + ", ".join(
            f"{process} {used['cpu_seconds']:.1f} s of CPU and {used['memory_mb']:.0f} MB"
            for process, used in costs.items()
        )
        for name, costs in figures.costs.items()
    ]


def plan_of(given: argparse.Namespace) -> Plan:
    return Plan(
        samples=(given.samples or (100_000 if given.quick else 500_000)) // NODES * NODES,
        events=given.events or (5_000 if given.quick else 50_000),
        plain_events=given.plain_events or (1_000 if given.quick else 5_000),
        rounds=given.rounds or (1 if given.quick else 5),
    )


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--samples", type=int, help=f"in packs of {PACK_SAMPLES}, ten nodes")
    parser.add_argument("--events", type=int, help="single ones")
    parser.add_argument("--plain-events", type=int, help="that the plain consumer is given")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    given = parser.parse_args()
    plan = plan_of(given)
    quiet_logs()
    with scratch(given.folder) as folder:
        # PostgreSQL runs as another user when we are root, and has to get in.
        os.chmod(folder, 0o755)  # noqa: S103, PTH101 - nothing secret lies in the folder itself
        facts = machine(folder)
        figures = uvloop.run(measure(plan, folder, Progress(plan.rounds * len(STEPS))))
    results, told = outcome(figures), cost_lines(figures)
    report("The cloud", results, facts, told)
    if given.json:
        write_json(given.json, "cloud", results, facts, costs=figures.costs)


if __name__ == "__main__":
    main()

"""A picture's way at the edge: presign, PUT, announcement over MQTT, verification, weight by the model.

edge-media-store, edge-vision-inference, edge-ingress-gateway, Mosquitto, PostgreSQL and SeaweedFS, all real and all on this
machine. Beside the upload stand bare PUTs: the same bytes, by the same client, to the same bucket with the same signed headers,
but signed beforehand, so that nobody is asked and nothing is written down.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import uvloop

from edge import Costs
from harness import Progress, Result, arguments, compared, in_turn, machine, quiet_logs, report, scratch, write_json
from media_edge import MediaEdge
from media_stations import Shot, Stations, prepared, shots, stations_of
from processes import until

STATIONS = 4
AIM_SECONDS = 2.0
LOOK_SECONDS = 0.01
LIMIT_SECONDS = 300.0
BARE_PUT = "bare PUT of the same bytes"
_WEIGHED = "SELECT media_id FROM inference_results WHERE media_id = ANY($1::uuid[])"

Measure = Callable[["Bench", int], Awaitable[None]]


class WrongCount(Exception):
    """The services have stored or weighed more or fewer pictures than were sent. The message has both numbers."""


@dataclass(frozen=True, slots=True)
class Plan:
    pictures: int
    rounds: int
    seconds: float
    per_second: float


@dataclass
class Figures:
    bare: dict[int, float] = field(default_factory=dict)
    uploaded: dict[int, float] = field(default_factory=dict)
    weighed: dict[int, float] = field(default_factory=dict)
    result_seconds: list[float] = field(default_factory=list)
    picture_bytes: float = 0.0
    costs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    plan: Plan
    edge: MediaEdge
    stations: Stations
    pictures: list[Shot]
    figures: Figures


# --- Measuring -----------------------------------------------------------------------------------------------------------------


async def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    progress.step("pictures are drawn, servers and services start")
    pictures = shots(plan.pictures)
    figures = Figures(picture_bytes=sum(len(shot.data) for shot in pictures) / len(pictures))
    edge = MediaEdge(folder)
    async with edge.running(STATIONS), stations_of(edge) as stations:
        bench = Bench(plan, edge, stations, pictures, figures)
        await warm_up(bench)
        for number in range(plan.rounds):
            for title in in_turn(list(STEPS), number):
                progress.step(f"round {number + 1} of {plan.rounds}: {title}")
                async with asyncio.timeout(LIMIT_SECONDS):
                    await STEPS[title](bench, number)
        progress.step(f"one picture every {1 / plan.per_second:g} s, for {plan.seconds:.0f} s")
        await measure_normal_rate(bench)
        await check_counts(bench)
    progress.end()
    return figures


async def warm_up(bench: Bench) -> None:
    """Volumes of the bucket are made, connections are open, the model is loaded: none of that is measured."""
    few = bench.pictures[: 2 * STATIONS]
    await bench.stations.put_bare(prepared(bench.edge, few, "warm"))
    sent = await bench.stations.upload(few, is_announced=True)
    await until_weighed(bench, [media_id for _, media_id, _ in sent])


async def measure_bare(bench: Bench, number: int) -> None:
    ready = prepared(bench.edge, bench.pictures, f"bare{number}")
    begun_at = time.perf_counter()
    await bench.stations.put_bare(ready)
    bench.figures.bare[number] = len(ready) / (time.perf_counter() - begun_at)


async def measure_upload(bench: Bench, number: int) -> None:
    """All that a station waits for. The pictures are announced when the clock has stopped, and dealt with before the next."""
    costs = Costs(bench.edge.processes)
    begun_at = time.perf_counter()
    sent = await bench.stations.upload(bench.pictures, is_announced=False)
    bench.figures.uploaded[number] = len(sent) / (time.perf_counter() - begun_at)
    bench.figures.costs["upload"] = costs.by_process()
    for station, media_id, shot in sent:
        await bench.stations.announce(station, media_id, shot)
    await until_weighed(bench, [media_id for _, media_id, _ in sent])


async def measure_through(bench: Bench, number: int) -> None:
    """Everything at once, from the first question for a URL until the last result is committed."""
    costs = Costs(bench.edge.processes)
    begun_at = time.perf_counter()
    sent = await bench.stations.upload(bench.pictures, is_announced=True)
    await until_weighed(bench, [media_id for _, media_id, _ in sent])
    bench.figures.weighed[number] = len(sent) / (time.perf_counter() - begun_at)
    bench.figures.costs["through"] = costs.by_process()


async def measure_normal_rate(bench: Bench) -> None:
    """One station that takes its time. From the question for a URL until the result is there, for each picture."""
    station = next(iter(bench.edge.tokens))
    begun_at, count = time.monotonic(), max(3, int(bench.plan.seconds * bench.plan.per_second))
    seconds: list[float] = []
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, begun_at + number / bench.plan.per_second - time.monotonic()))
            shot = bench.pictures[number % len(bench.pictures)]
            group.create_task(_one(bench, station, shot, seconds))
    bench.figures.result_seconds = seconds


async def _one(bench: Bench, station: str, shot: Shot, seconds: list[float]) -> None:
    media_id = await bench.stations.send(station, shot)
    await bench.stations.announce(station, media_id, shot)
    await until_weighed(bench, [media_id])
    seconds.append(time.time() - bench.stations.begun_at[media_id])


async def until_weighed(bench: Bench, media_ids: Sequence[UUID]) -> None:
    left = set(media_ids)

    async def are_weighed() -> bool:
        left.difference_update([row["media_id"] for row in await bench.edge.pool.fetch(_WEIGHED, list(left))])
        return not left

    await until(are_weighed)


async def check_counts(bench: Bench) -> None:
    sent = len(bench.stations.begun_at)
    for table, query in {
        "stored pictures": "SELECT count(*) FROM media_objects WHERE state = 'stored'",
        "media.stored events": "SELECT count(*) FROM sync_outbox WHERE event_type = 'media.stored'",
        "results": "SELECT count(*) FROM inference_results",
    }.items():
        counted = await bench.edge.pool.fetchval(query)
        if counted != sent:
            raise WrongCount(f"{counted} {table} are there, and not {sent}")


STEPS: dict[str, Measure] = {
    "bare PUT": measure_bare,
    "presign and PUT": measure_upload,
    "until the last weight": measure_through,
}


# --- The outcome ---------------------------------------------------------------------------------------------------------------


def outcome(figures: Figures, plan: Plan) -> list[Result]:
    kilobytes = f"{figures.picture_bytes / 1000:.0f} kB a picture, {STATIONS} stations at once"
    slowest = sorted(figures.result_seconds)
    p95 = slowest[min(len(slowest) - 1, int(len(slowest) * 0.95))]
    note = f"{len(slowest)} pictures, one every {1 / plan.per_second:g} s, longest {slowest[-1]:.2f} s"
    return [
        compared("media_upload", figures.uploaded, BARE_PUT, figures.bare, "pictures/s", note=kilobytes),
        compared(
            "media_through", figures.weighed, BARE_PUT, figures.bare, "pictures/s",
            note="until the last picture is verified, told and weighed",
        ),
        compared(
            "upload_to_result_p95", {0: p95}, "aim", {0: AIM_SECONDS}, "s", is_better_below=True, note=note
        ),
    ]  # fmt: skip


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
        pictures=given.pictures or (80 if given.quick else 400),
        rounds=given.rounds or (1 if given.quick else 5),
        seconds=given.seconds or (8.0 if given.quick else 120.0),
        per_second=given.rate,
    )


def main() -> int:
    parser = arguments(__doc__.split("\n\n")[0] if __doc__ else "")
    parser.add_argument("--pictures", type=int, help="in each round")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--seconds", type=float, help="at a station's normal rate")
    parser.add_argument("--rate", type=float, default=1.0, help="pictures a second of that station")
    given = parser.parse_args()
    plan = plan_of(given)
    quiet_logs()
    with scratch(given.folder) as folder:
        # PostgreSQL runs as another user when we are root, and has to get in.
        os.chmod(folder, 0o755)  # noqa: S103, PTH101 - nothing secret lies in the folder itself
        facts = machine(folder)
        figures = uvloop.run(measure(plan, folder, Progress(plan.rounds * len(STEPS) + 2)))
    results, told = outcome(figures, plan), cost_lines(figures)
    report("Pictures at the edge", results, facts, told)
    if given.json:
        write_json(given.json, "bench_media", results, facts, remarks=told)
    return 0


if __name__ == "__main__":
    sys.exit(main())

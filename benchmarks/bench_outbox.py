"""The outbox: how fast a backlog is claimed and acknowledged, beside pgqueuer and procrastinate on the same cluster; whether a
long backlog makes it slower; what it costs in WAL and dead rows; the same with the forwarder and HTTP; telemetry packs.

Everything that is counted is durable: `fsync` and `synchronous_commit` are on, and each event is acknowledged in a transaction
that is committed when the clock stops. Every queue has a database and a process of its own.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import uvloop

from farmiq.contracts import event_types
from farmiq.contracts.telemetry import Channel, TelemetryBatch, pack_of
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.outbox import Event
from farmiq.stack.ports import free_port
from farmiq.stack.postgres import Postgres
from forwarded import forwarder, seconds_until_acknowledged
from harness import (
    Progress,
    Result,
    arguments,
    compared,
    in_turn,
    machine,
    peer_versions,
    peers_remark,
    quiet_logs,
    report,
    scratch,
    write_json,
)
from processes import server
from queues import QueueFailed
from queues.catalogue import ENTRIES, OUTBOX, PGQUEUER, PROCRASTINATE, Entry
from queues.farmiq_outbox import TENANT, Outbox, Packs

SMALL = 10_000
PACK_SAMPLES = 500
CHANNELS = 10
HTTP_BATCH = 500
AIM_SAMPLES_PER_SECOND = 100_000.0
LIMIT_SECONDS = 300.0

PEER_NAMES = ("pgqueuer", "procrastinate")


@dataclass(frozen=True, slots=True)
class Plan:
    events: int  # beside the peers, and over HTTP
    long_events: int
    packs: int
    rounds: int
    long_rounds: int
    slow_limit_seconds: float  # for procrastinate
    peers_python: Path | None  # None: their environment is missing, so they are left out

    def queues(self, number: int) -> list[str]:
        peers = [*PGQUEUER, PROCRASTINATE] if self.peers_python else []
        return in_turn([entry.name for entry in (OUTBOX, *peers)], number)

    def long_turns(self) -> list[tuple[Entry, int]]:
        peers = [(PGQUEUER[0], self.long_events)] if self.peers_python else []
        return [(OUTBOX, SMALL), (OUTBOX, self.long_events), *peers]

    def limit(self, entry: Entry) -> float:
        return self.slow_limit_seconds if entry is PROCRASTINATE else LIMIT_SECONDS

    @property
    def steps(self) -> int:
        return self.rounds * (len(self.queues(0)) + 3) + len(self.long_turns()) * self.long_rounds


class Figures:
    """What was measured, by kind, by whom, by round."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self._notes: dict[str, str] = {}

    def add(self, kind: str, who: str, number: int, value: float) -> None:
        self._values[kind][who][number] = value

    def note(self, who: str, text: str) -> None:
        self._notes[who] = text

    def of(self, kind: str, who: str) -> dict[int, float]:
        return self._values[kind][who]

    def note_of(self, who: str) -> str:
        return self._notes.get(who, "")

    def best(self, kind: str, entries: tuple[Entry, ...]) -> dict[int, float]:
        """Of each round the highest."""
        by_round: dict[int, float] = {}
        for entry in entries:
            for number, value in self.of(kind, entry.name).items():
                by_round[number] = max(value, by_round.get(number, 0.0))
        return by_round


class Cluster:
    """One PostgreSQL that syncs, and a new database in it for whoever asks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres = Postgres(folder / "postgres", free_port(), secrets.token_urlsafe(16))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with server(self._postgres, self._folder / "postgres.log"):
            yield

    @asynccontextmanager
    async def database(self) -> AsyncIterator[str]:
        name = f"q{secrets.token_hex(4)}"
        await self._execute(f"CREATE DATABASE {name}")
        yield self._postgres.url(database=name)
        await self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    async def _execute(self, statement: str) -> None:
        connection = await asyncpg.connect(self._postgres.url())
        await connection.execute(statement)
        await connection.close()


# --- Measuring -----------------------------------------------------------------------------------------------------------------


async def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    figures, cluster = Figures(), Cluster(folder)
    async with cluster.running():
        for number in range(plan.rounds):
            for name in plan.queues(number):
                progress.step(f"round {number + 1} of {plan.rounds}: {ENTRIES[name].title}")
                await measure_queue(plan, cluster, figures, number, ENTRIES[name])
            progress.step(f"round {number + 1} of {plan.rounds}: over HTTP")
            await measure_http(plan, cluster, figures, number, folder)
            progress.step(f"round {number + 1} of {plan.rounds}: packs")
            await measure_packs(plan, cluster, figures, number)
            progress.step(f"round {number + 1} of {plan.rounds}: packs over HTTP")
            await measure_packs_http(plan, cluster, figures, number, folder)
        for number in range(plan.long_rounds):
            for entry, events in in_turn(plan.long_turns(), number):
                progress.step(f"long round {number + 1} of {plan.long_rounds}: {events:,} pending, {entry.title}")
                async with cluster.database() as url:
                    done = child(plan, entry, url, events)
                if done["events"] < events and entry is OUTBOX:
                    raise QueueFailed(f"{events - done['events']:,} of {events:,} events were left behind")
                figures.add(f"long {events}", entry.name, number, done["events"] / done["seconds"])
    progress.end()
    return figures


async def measure_queue(plan: Plan, cluster: Cluster, figures: Figures, number: int, entry: Entry) -> None:
    async with cluster.database() as url:
        done = child(plan, entry, url, plan.events)
    if done["events"] < plan.events:
        if entry is not PROCRASTINATE:
            raise QueueFailed(f"{entry.title} left {plan.events - done['events']:,} events behind")
        figures.note(entry.name, f"stopped after {done['events']:,} events")
    figures.add("drain", entry.name, number, done["events"] / done["seconds"])
    figures.add("wal", entry.name, number, done["wal_bytes"] / done["events"])
    figures.add("died", entry.name, number, done["died"] / done["events"])


def child(plan: Plan, entry: Entry, url: str, events: int) -> dict[str, Any]:
    python = str(plan.peers_python) if entry.is_peer else sys.executable
    done = subprocess.run(
        [python, "-m", "queues.run", entry.name, "--events", str(events), "--limit-seconds", str(plan.limit(entry))],
        # The password stands in the environment: everybody can read a command line.
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parent), "DATABASE_URL": url},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise QueueFailed(f"{entry.title} could not be drained:\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


async def measure_http(plan: Plan, cluster: Cluster, figures: Figures, number: int, folder: Path) -> None:
    async with cluster.database() as url:
        outbox = Outbox(url)
        await outbox.install()
        async with forwarder(url, folder, HTTP_BATCH):
            await outbox.fill(plan.events)
            seconds = await seconds_until_acknowledged(url)
    figures.add("http", "outbox", number, plan.events / seconds)


async def measure_packs(plan: Plan, cluster: Cluster, figures: Figures, number: int) -> None:
    async with cluster.database() as url:
        packs, events = Packs(url), list(pack_events(plan.packs))
        await packs.install()
        begun_at = time.perf_counter()
        await packs.write(events)
        done = await packs.drain(LIMIT_SECONDS)
        seconds = time.perf_counter() - begun_at
    if done != plan.packs:
        raise QueueFailed(f"{plan.packs - done} packs were left behind")
    figures.add("packs", "outbox", number, plan.packs * PACK_SAMPLES / seconds)


async def measure_packs_http(plan: Plan, cluster: Cluster, figures: Figures, number: int, folder: Path) -> None:
    """Written while they are sent, as the gateway and the forwarder do it."""
    async with cluster.database() as url:
        packs, events = Packs(url), list(pack_events(plan.packs))
        await packs.install()
        async with forwarder(url, folder, packs.batch):
            begun_at = time.perf_counter()
            await packs.write(events)
            writing = time.perf_counter() - begun_at
            seconds = writing + await seconds_until_acknowledged(url)
    figures.add("packs_http", "outbox", number, plan.packs * PACK_SAMPLES / seconds)


def pack_events(count: int) -> Iterator[Event]:
    """One node's history: ten channels at 1 Hz, five hundred samples an event."""
    stream_id, now = uuid4(), Clock().now()
    channels = [Channel(metric="temperature", unit="C", sensor=f"t{number}") for number in range(CHANNELS)]
    began_us = int(now.timestamp() * 1_000_000)
    for seq0 in range(1, count * PACK_SAMPLES, PACK_SAMPLES):
        seqs = range(seq0, seq0 + PACK_SAMPLES)
        batch = TelemetryBatch(
            stream_id=stream_id, boot_id=stream_id, lane="replay", seq0=seq0, time_quality=2, channels=channels,
            t=[began_us + seq // CHANNELS * 1_000_000 for seq in seqs],
            c=[seq % CHANNELS for seq in seqs],
            v=[20.0 + seq % 97 / 7 for seq in seqs],
        )  # fmt: skip
        yield Event(
            id=new_id(), tenant_id=TENANT, farm_id="farm-1", barn_id="barn-1", device_id="node-1",
            event_type=event_types.TELEMETRY_BATCH_INGESTED, occurred_at=now,
            payload=pack_of(batch, batch.seq0, batch.last_seq),
        )  # fmt: skip


# --- The outcome ---------------------------------------------------------------------------------------------------------------


def outcome(plan: Plan, figures: Figures) -> list[Result]:
    ours = figures.of("drain", OUTBOX.name)
    small, long = figures.of(f"long {SMALL}", OUTBOX.name), figures.of(f"long {plan.long_events}", OUTBOX.name)
    aim = dict.fromkeys(range(plan.rounds), AIM_SAMPLES_PER_SECOND)
    return [
        *_against_peers(plan, figures),
        compared(
            "outbox_drain_1m", long, f"our own with {SMALL:,} pending", small, "events/s",
            note=f"{plan.long_events:,} pending",
        ),
        *_long_against_peer(plan, figures),
        compared("outbox_drain_http", figures.of("http", "outbox"), "our own without HTTP", ours, "events/s"),
        compared("outbox_packs", figures.of("packs", "outbox"), "aim", aim, "samples/s", note="append, claim, settle"),
        compared("outbox_packs_http", figures.of("packs_http", "outbox"), "aim", aim, "samples/s"),
    ]  # fmt: skip


def _against_peers(plan: Plan, figures: Figures) -> Iterator[Result]:
    ours = figures.of("drain", OUTBOX.name)
    if not plan.peers_python:
        return
    yield compared("outbox_drain", ours, "pgqueuer, the better of its two", figures.best("drain", PGQUEUER), "events/s")
    for entry in (*PGQUEUER, PROCRASTINATE):
        theirs = figures.of("drain", entry.name)
        note = figures.note_of(entry.name)
        yield compared(f"outbox_drain_vs_{entry.name}", ours, entry.title, theirs, "events/s", note=note)
    for kind, name, unit in (("wal", "outbox_wal", "bytes/event"), ("died", "outbox_dead_rows", "rows/event")):
        for entry in (PGQUEUER[0], PROCRASTINATE):
            measured = name if entry is PGQUEUER[0] else f"{name}_vs_{entry.name}"
            theirs = figures.of(kind, entry.name)
            yield compared(measured, figures.of(kind, OUTBOX.name), entry.title, theirs, unit, is_better_below=True)


def _long_against_peer(plan: Plan, figures: Figures) -> Iterator[Result]:
    ours, peer = figures.of(f"long {plan.long_events}", OUTBOX.name), PGQUEUER[0]
    if theirs := figures.of(f"long {plan.long_events}", peer.name):
        note = f"{plan.long_events:,} pending, both"
        yield compared(f"outbox_drain_1m_vs_{peer.name}", ours, peer.title, theirs, "events/s", note=note)


def remarks(plan: Plan, versions: dict[str, str] | None) -> list[str]:
    told = [
        f"{plan.events:,} events of 150 bytes beside the peers and over HTTP, {plan.packs:,} packs of {PACK_SAMPLES} samples.",
        "Batches of 500 events, two at a time. A dead row is a version that an update or a deletion left for VACUUM.",
        "The outbox keeps what is acknowledged for its retention; the peers delete it.",
    ]
    told.append(peers_remark(PEER_NAMES, versions))
    return told


def planned(given: argparse.Namespace, peers_python: Path | None) -> Plan:
    return Plan(
        events=given.events or (SMALL if given.quick else 100_000),
        long_events=given.long_events or (50_000 if given.quick else 1_000_000),
        packs=given.packs or (400 if given.quick else 2_000),
        rounds=given.rounds or (1 if given.quick else 5),
        long_rounds=1 if given.quick else 2,
        slow_limit_seconds=2.0 if given.quick else 10.0,
        peers_python=peers_python,
    )


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--events", type=int, help="that each queue is given")
    parser.add_argument("--long-events", type=int, help="in the long backlog")
    parser.add_argument("--packs", type=int, help="of 500 samples each")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    given = parser.parse_args()
    quiet_logs()
    versions = peer_versions(given.peers_python, PEER_NAMES)
    plan = planned(given, given.peers_python if versions else None)
    with scratch(given.folder) as folder:
        # PostgreSQL runs as another user when we are root, and has to get in.
        os.chmod(folder, 0o755)  # noqa: S103, PTH101 - nothing secret lies in the folder itself
        facts = machine(folder)
        results = outcome(plan, uvloop.run(measure(plan, folder, Progress(plan.steps))))
    told = remarks(plan, versions)
    report("The outbox", results, facts, told)
    if given.json:
        write_json(given.json, "outbox", results, facts, remarks=told)


if __name__ == "__main__":
    main()

"""The node's spool: append, recover and read, beside the bare Python loop, SQLite and the stores of other gateways; then the
whole node-forwarder, from its socket to the disk, and its memory.

Everything that is counted as appended is on the disk when the clock stops. A store that is too slow for the whole number of
samples is stopped at a time limit, and its rate is taken from what it managed. Every store runs in a process of its own
that kills itself after appending; what is reopened is what the kill left. The page cache is warm unless the name says cold.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forwarder import Forwarder
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
from stores import StoreFailed
from stores.catalogue import BARE, ENTRIES, PEERS, SPOOL, SQLITE, Entry

FRAME_BYTES = 40
AGENT_ROWS_MAX = 10_000
FORWARDER_MB_MAX = 80.0

SYNC_SECONDS = {"append": 1.0, "append_group": 0.0}
CHECKED = "sqlite_full"  # the one whose integrity_check is shown beside our recovery

PEER_NAMES = ("persist-queue", "thingsboard-gateway")


@dataclass(frozen=True, slots=True)
class Plan:
    samples: int
    group: int
    rounds: int
    peer_rounds: int
    forwarder_rounds: int  # the last ones
    limit_seconds: float
    replay_seconds: float
    peers_python: Path | None  # None: their environment is missing, so they are left out
    is_thorough: bool  # peers are also synced after each group, and reopened

    def stores(self, number: int, move: str) -> list[str]:
        """Who takes part in a round, and in which order."""
        chosen: list[Entry] = [BARE, SPOOL]
        if number < self.peer_rounds:
            # One transaction from sync to sync is the same as one for each group when every group is synced.
            chosen += [store for store in SQLITE if move == "append" or store.name != "sqlite_long"]
            if self.peers_python and (move == "append" or self.is_thorough):
                chosen += PEERS
        return in_turn([store.name for store in chosen], number)

    def limit(self, store: Entry) -> list[object]:
        return ["--limit-seconds", self.limit_seconds] if store.is_peer else []

    def has_forwarder(self, number: int) -> bool:
        return number >= self.rounds - self.forwarder_rounds

    @property
    def steps(self) -> int:
        stores = sum(len(self.stores(number, move)) for number in range(self.rounds) for move in SYNC_SECONDS)
        return stores + sum(map(self.has_forwarder, range(self.rounds)))


class Figures:
    """What was measured, by move, by store, by round."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
        self._notes: dict[tuple[str, str], str] = {}

    def add(self, move: str, store: str, number: int, value: float, note: str = "") -> None:
        self._values[move][store][number] = value
        if note:
            self._notes[move, store] = note

    def of(self, move: str, store: str) -> dict[int, float]:
        return self._values[move][store]

    def results(self, move: str, unit: str, **more: Any) -> Iterator[Result]:
        """The spool against everybody else who made this move. The bare loop has the plain name and comes first."""
        ours = self.of(move, SPOOL.name)
        for store in [name for name in ENTRIES if name != SPOOL.name and name in self._values[move]]:
            name = f"spool_{move}" if store == BARE.name else f"spool_{move}_vs_{store}"
            note = self._notes.get((move, store), "")
            yield compared(name, ours, ENTRIES[store].title, self.of(move, store), unit, note=note, **more)


# --- Measuring -----------------------------------------------------------------------------------------------------------------


def measure(plan: Plan, folder: Path, progress: Progress) -> Figures:
    figures = Figures()
    for number in range(plan.rounds):
        for move in SYNC_SECONDS:
            for name in plan.stores(number, move):
                progress.step(f"round {number + 1} of {plan.rounds}: {move}, {ENTRIES[name].title}")
                measure_store(plan, figures, number, move, ENTRIES[name], folder / name)
        if plan.has_forwarder(number):
            progress.step(f"round {number + 1} of {plan.rounds}: node-forwarder")
            asyncio.run(measure_forwarder(plan, figures, number, folder / "node"))
    progress.end()
    return figures


def measure_store(plan: Plan, figures: Figures, number: int, move: str, store: Entry, folder: Path) -> None:
    folder.mkdir()
    size = ["--samples", plan.samples, "--group", plan.group, *plan.limit(store)]
    written = child(plan, "append", store, folder, *size, "--sync-seconds", SYNC_SECONDS[move])
    note = "" if written["samples"] >= plan.samples else f"stopped after {written['samples']:,} samples"
    figures.add(move, store.name, number, written["samples"] / written["seconds"], note)
    if move == "append" and (plan.is_thorough or not store.is_peer):
        measure_reopening(plan, figures, number, store, folder, int(written["samples"]))
    shutil.rmtree(folder)


def measure_reopening(plan: Plan, figures: Figures, number: int, store: Entry, folder: Path, written: int) -> None:
    again = child(plan, "reopen", store, folder, *plan.limit(store))
    note = ""
    if again["is_whole"] and again["samples"] != written:
        note = f"gave back {again['samples']:,} of {written:,} samples"
        if not store.is_peer:
            raise StoreFailed(f"{store.title} {note}")
    figures.add("read", store.name, number, again["samples"] / again["read_seconds"], note)
    if store in (BARE, SPOOL):
        cold = child(plan, "reopen", store, folder, "--cold")
        megabytes = written * FRAME_BYTES / 1e6
        figures.add("recover", store.name, number, megabytes / again["open_seconds"])
        figures.add("recover_cold", store.name, number, megabytes / cold["open_seconds"])
    if store is not BARE:
        figures.add("reopen", store.name, number, again["open_seconds"])
        figures.add("reopen_checked", store.name, number, again["open_seconds"] + again["check_seconds"])


def child(plan: Plan, move: str, store: Entry, folder: Path, *options: object) -> dict[str, Any]:
    python = str(plan.peers_python) if store.is_peer else sys.executable
    done = subprocess.run(
        [python, "-m", "stores.run", move, store.name, str(folder), *map(str, options)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != (-signal.SIGKILL if move == "append" else 0):
        raise StoreFailed(f"{store.title} could not {move}:\n{done.stderr[-2000:]}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


async def measure_forwarder(plan: Plan, figures: Figures, number: int, folder: Path) -> None:
    async with Forwarder(folder).running() as forwarder:
        figures.add("socket", SPOOL.name, number, await forwarder.take(plan.samples, AGENT_ROWS_MAX))
        figures.add("rss", SPOOL.name, number, forwarder.resident_mb())
        if number == plan.rounds - 1:
            heard, resident_mb = await forwarder.replay(plan.samples, plan.replay_seconds)
            figures.add("rss_replay", SPOOL.name, number, resident_mb, f"{heard:,} samples replayed meanwhile")
    await asyncio.to_thread(shutil.rmtree, folder)


# --- The outcome ---------------------------------------------------------------------------------------------------------------


def outcome(figures: Figures) -> list[Result]:
    return [
        *figures.results("append", "samples/s"),
        *figures.results("append_group", "samples/s"),
        *figures.results("recover", "MB/s"),
        *figures.results("recover_cold", "MB/s"),
        *figures.results("reopen", "s", is_better_below=True),
        _reopened_and_checked(figures),
        *figures.results("read", "samples/s"),
        compared(
            "socket_to_durable",
            figures.of("socket", SPOOL.name),
            BARE.title,
            figures.of("append", BARE.name),
            "samples/s",
        ),
        *(
            _memory(figures, name, move)
            for name, move in (("forwarder_rss", "rss"), ("forwarder_rss_replay", "rss_replay"))
        ),
    ]


def _reopened_and_checked(figures: Figures) -> Result:
    title = f"{ENTRIES[CHECKED].title}, then integrity_check"
    ours, theirs = figures.of("reopen_checked", SPOOL.name), figures.of("reopen_checked", CHECKED)
    return compared(f"spool_reopen_vs_{CHECKED}_checked", ours, title, theirs, "s", is_better_below=True)


def _memory(figures: Figures, name: str, move: str) -> Result:
    measured = figures.of(move, SPOOL.name)
    limit = dict.fromkeys(measured, FORWARDER_MB_MAX)
    return compared(name, measured, "aim", limit, "MB", is_better_below=True)


def remarks(plan: Plan, versions: dict[str, str] | None) -> list[str]:
    told = [
        f"{plan.samples:,} samples in groups of {plan.group:,}, everything on disk when the clock stops.",
        "append: synced each second and at the end. append_group: synced after each group.",
        "A ratio is the median of the rounds' own ratios. Reopened after kill -9, page cache warm unless cold is said.",
        "Of the others only integrity_check looks at what is stored; reopening them does not.",
    ]
    told.append(peers_remark(PEER_NAMES, versions))
    return told


def planned(given: argparse.Namespace, peers_python: Path | None) -> Plan:
    return Plan(
        samples=given.samples or (200_000 if given.quick else 1_000_000),
        group=1000,
        rounds=given.rounds or (3 if given.quick else 5),
        peer_rounds=1 if given.quick else 3,
        forwarder_rounds=1 if given.quick else 5,
        limit_seconds=0.5 if given.quick else 3.0,
        replay_seconds=15.0 if given.quick else 60.0,
        peers_python=peers_python,
        is_thorough=not given.quick,
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--samples", type=int, help="how many each store gets, in thousands that are whole")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    given = parser.parse_args(argv)
    quiet_logs()
    versions = peer_versions(given.peers_python, PEER_NAMES)
    plan = planned(given, given.peers_python if versions else None)
    with scratch(given.folder) as folder:
        facts = machine(folder)
        results = outcome(measure(plan, folder, Progress(plan.steps)))
    told = remarks(plan, versions)
    report("The node's spool", results, facts, told)
    if given.json:
        write_json(given.json, "spool", results, facts, remarks=told)


if __name__ == "__main__":
    main()

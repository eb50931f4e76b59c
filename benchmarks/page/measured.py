"""The results of the last run, as their files have them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# In the order of a sample's way; whatever is not named here comes after it.
ORDER = ("spool", "power_cut", "ingest", "outbox", "cloud", "latency", "neighbour", "media", "relay")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One result. `name` without the peer that it stands beside is `measures`."""

    name: str
    value: float
    unit: str
    against: str
    ratio: float
    against_value: float
    spread: tuple[float, float]
    rounds: int
    is_better_below: bool
    note: str

    @property
    def measures(self) -> str:
        return self.name.partition("_vs_")[0]

    @property
    def is_beside_a_peer(self) -> bool:
        return "_vs_" in self.name

    def times_better(self, ratio: float) -> float:
        """A ratio so that more is better."""
        return 1 / ratio if self.is_better_below and ratio else ratio


@dataclass(frozen=True, slots=True)
class Run:
    benchmark: str
    command: str
    measured_at: str
    seconds: float
    commit: str
    machine: dict[str, Any]
    outcomes: tuple[Outcome, ...]
    remarks: tuple[str, ...]
    power_cut: tuple[dict[str, Any], ...]


def runs_in(folder: Path) -> list[Run]:
    return [run_of(path) for path in sorted(folder.glob("*.json"), key=lambda path: place_of(path.stem))]


def run_of(path: Path) -> Run:
    stored = json.loads(path.read_text(encoding="utf-8"))
    return Run(
        benchmark=path.stem,
        command=stored["command"],
        measured_at=stored["measured_at"],
        seconds=stored["seconds"],
        commit=stored["commit"],
        machine=stored["machine"],
        outcomes=tuple(_outcome(result) for result in stored["results"]),
        remarks=tuple(stored.get("remarks", ())),
        power_cut=tuple(stored.get("power_cut", ())),
    )


def _outcome(result: dict[str, Any]) -> Outcome:
    low, high = result["spread"]
    return Outcome(**{**result, "spread": (low, high)})


def place_of(benchmark: str) -> tuple[int, str]:
    return (ORDER.index(benchmark) if benchmark in ORDER else len(ORDER), benchmark)


def missing(runs: Iterable[Run], scripts: Path) -> list[str]:
    """Benchmarks that are there and have no result."""
    there = {path.stem.removeprefix("bench_") for path in scripts.glob("bench_*.py")}
    return sorted(there - {run.benchmark for run in runs}, key=place_of)

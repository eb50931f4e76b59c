"""What every benchmark shares: its arguments, facts about the machine, rounds that take turns, ratios, the table, the JSON.

A benchmark measures itself and its peers in one run. Each round measures everybody once, in an order that moves on by one
each time, so that whatever else the machine does hits all of them alike. A ratio is the median of the rounds' own ratios,
and the lowest and the highest of them stand beside it.
"""

import argparse
import json
import logging
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import structlog
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

_SYNCS_MEASURED = 50
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the outcome. `ratio` is `value` over the value of `against`; `is_better_below` when less is better."""

    name: str
    value: float
    unit: str
    against: str
    ratio: float
    against_value: float
    spread: tuple[float, float]
    rounds: int
    is_better_below: bool = False
    note: str = ""


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a short run, under 40 seconds")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results here; a folder gets a file of its own"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / ".bench", help="on the disk to be measured")
    parser.add_argument(
        "--peers-python", type=Path, default=PEERS_PYTHON, help="of the environment that tools/bootstrap.sh bench makes"
    )
    return parser


def quiet_logs() -> None:
    """Our own code logs to stdout, where the table goes; what went wrong still shows."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder for this run on the disk that was asked for: in memory a sync costs nothing, so not where /tmp may be."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made)


# --- Rounds --------------------------------------------------------------------------------------------------------------------


def in_turn(turns: Sequence[_T], round_number: int) -> list[_T]:
    """Everybody once; whoever began this round ends the next."""
    first = round_number % len(turns)
    return [*turns[first:], *turns[:first]]


def compared(
    name: str, ours: Mapping[int, float], against: str, theirs: Mapping[int, float], unit: str, **more: Any
) -> Result:
    """Both by round. Only rounds that measured both count."""
    both = sorted(ours.keys() & theirs.keys())
    ratios = [ours[number] / theirs[number] for number in both]
    return Result(
        name=name,
        value=statistics.median(ours[number] for number in both),
        unit=unit,
        against=against,
        ratio=statistics.median(ratios),
        against_value=statistics.median(theirs[number] for number in both),
        spread=(min(ratios), max(ratios)),
        rounds=len(both),
        **more,
    )


class Progress:
    """On stderr, so that the table can be piped. One line that changes on a terminal, one line a step in a log."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._is_terminal = sys.stderr.isatty()

    def step(self, text: str) -> None:
        self._done += 1
        line = f"[{self._done}/{self._steps}] {text}"
        print(f"\r\033[K{line}" if self._is_terminal else line, end="" if self._is_terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def end(self) -> None:
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


# --- Where and what ------------------------------------------------------------------------------------------------------------


def machine(folder: Path) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "system": platform.platform(),
        "python": platform.python_version(),
        "file_system": _file_system(folder),
        "fdatasync_ms": round(_sync_seconds(folder) * 1000, 3),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """With a mark when files differ from it."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "Model"))]
    return names[0] if names else platform.processor() or platform.machine()


def _file_system(folder: Path) -> str:
    """The type of the mount that holds the folder: the longest mount point above it."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    above = [(len(mount[1]), mount[2]) for mount in mounts if folder.resolve().is_relative_to(mount[1])]
    return max(above)[1]


def _sync_seconds(folder: Path) -> float:
    path, seconds = folder / "sync", []
    with path.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, 4096 * _SYNCS_MEASURED)
        os.fsync(file.fileno())
        for _ in range(_SYNCS_MEASURED):
            file.write(bytes(4096))
            begun_at = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - begun_at)
    path.unlink()
    return statistics.median(seconds)


def peer_versions(python: Path, names: Sequence[str]) -> dict[str, str] | None:
    """None when their environment is missing, or not whole."""
    if not python.exists():
        return None
    script = "import json, sys; from importlib.metadata import version; print(json.dumps([version(n) for n in sys.argv[1:]]))"
    done = subprocess.run([str(python), "-c", script, *names], capture_output=True, text=True, check=False)
    return dict(zip(names, json.loads(done.stdout), strict=True)) if done.returncode == 0 else None


def peers_remark(names: Sequence[str], versions: Mapping[str, str] | None) -> str:
    if versions is None:
        missing = " and ".join(names)
        return f"Not measured: {missing}, because their environment is missing. tools/bootstrap.sh bench makes it."
    return ", ".join(f"{name} {version}" for name, version in versions.items())


# --- The outcome ---------------------------------------------------------------------------------------------------------------


def report(title: str, results: Sequence[Result], facts: Mapping[str, Any], remarks: Sequence[str]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for heading in ("result", "value", "unit", "against", "their value", "ratio", "lowest - highest", "note"):
        table.add_column(heading, justify="right" if heading in {"value", "their value", "ratio"} else "left")
    for measured, group in groupby(results, key=lambda result: result.name.partition("_vs_")[0]):
        for place, result in enumerate(group):
            # Beside each peer stands our value of the rounds that it took part in.
            low, high = result.spread
            table.add_row(
                measured if place == 0 else "", shown(result.value), result.unit, result.against,
                shown(result.against_value), shown(result.ratio), f"{shown(low)} - {shown(high)}",
                ". ".join(filter(None, ["less is better" if result.is_better_below else "", result.note])),
            )  # fmt: skip
        table.add_section()
    console.print(table)
    console.print(", ".join(f"{name} {fact}" for name, fact in facts.items()), style="dim")
    for remark in remarks:
        console.print(remark)


def shown(value: float) -> str:
    """Three digits that count, thousands apart."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value else "0"


def write_json(path: Path, benchmark: str, results: Sequence[Result], facts: Mapping[str, Any], **more: Any) -> None:
    target = path / f"{benchmark}.json" if path.is_dir() else path
    outcome = {"machine": facts, "commit": commit(), "results": [_as_json(result) for result in results], **more}
    target.write_text(json.dumps(outcome, indent=2) + "\n", encoding="utf-8")


def _as_json(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Result.__slots__}

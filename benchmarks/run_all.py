"""Every benchmark, one after the other, and then the page: `make bench`.

One that fails does not keep the others from being measured. It is named at the end, it has no numbers on the page, and the
exit code is 1.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness import ROOT
from page.measured import place_of
from page.writing import PAGE, PICTURES, RESULTS, write

SCRIPTS = ROOT / "benchmarks"


@dataclass(frozen=True, slots=True)
class Done:
    benchmark: str
    seconds: float
    problem: str | None  # None: measured

    def in_words(self) -> str:
        return f"{self.benchmark:<10} {self.seconds:5.0f} s  {self.problem or 'measured'}"


def benchmarks(scripts: Path) -> list[str]:
    return sorted((path.stem.removeprefix("bench_") for path in scripts.glob("bench_*.py")), key=place_of)


def measure(scripts: Path, name: str, results: Path, more: Sequence[str]) -> Done:
    """Runs one, and writes beside its results how they came to be."""
    script, file = scripts / f"bench_{name}.py", results / f"{name}.json"
    begun_at, begun = datetime.now(UTC), time.monotonic()
    ended = subprocess.run([sys.executable, str(script), "--json", str(file), *more], check=False)
    seconds = time.monotonic() - begun
    if ended.returncode != 0:
        file.unlink(missing_ok=True)
        return Done(name, seconds, f"FAILED with exit code {ended.returncode}")
    if not file.exists():
        return Done(name, seconds, "FAILED: it wrote no results")
    origin = {
        "command": f"benchmarks/{script.name}{' --quick' if '--quick' in more else ''}",
        "measured_at": begun_at.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(seconds, 1),
        "load_at_end": round(os.getloadavg()[0], 2),
    }
    stored = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**origin, **stored}, indent=2) + "\n", encoding="utf-8")
    return Done(name, seconds, None)


def measure_all(scripts: Path, names: Sequence[str], results: Path, more: Sequence[str]) -> list[Done]:
    results.mkdir(parents=True, exist_ok=True)
    done: list[Done] = []
    for number, name in enumerate(names, 1):
        (results / f"{name}.json").unlink(missing_ok=True)
        print(f"\n== {number} of {len(names)}: benchmarks/bench_{name}.py {shlex.join(more)}", flush=True)
        done.append(measure(scripts, name, results, more))
        print(f"== {done[-1].in_words()}", flush=True)
    return done


def adopt(done: Sequence[Done], results: Path, kept: Path) -> None:
    """What was measured now replaces what was kept; what failed now has no number any more."""
    kept.mkdir(parents=True, exist_ok=True)
    for each in done:
        (kept / f"{each.benchmark}.json").unlink(missing_ok=True)
        if each.problem is None:
            shutil.copy(results / f"{each.benchmark}.json", kept)


def main() -> int:
    there = benchmarks(SCRIPTS)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, under 40 seconds each on an idle machine")
    parser.add_argument("--only", nargs="+", choices=there, metavar="NAME", help=f"of these: {', '.join(there)}")
    parser.add_argument(
        "--json", type=Path, default=ROOT / ".bench" / "results", metavar="FOLDER", help="for the results"
    )
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    parser.add_argument(
        "--no-page", action="store_true", help="leave docs/benchmarks.md and benchmarks/results as they are"
    )
    given = parser.parse_args()
    more = [*(["--quick"] if given.quick else []), *(["--folder", str(given.folder)] if given.folder else [])]
    done = measure_all(SCRIPTS, [name for name in there if name in (given.only or there)], given.json, more)
    if not given.no_page and any(each.problem is None for each in done):
        adopt(done, given.json, RESULTS)
        write()
        print(f"\nMade {PAGE.relative_to(ROOT)} and {PICTURES.relative_to(ROOT)} from {RESULTS.relative_to(ROOT)}.")
    print(f"\nThe results are in {given.json}.\n" + "\n".join(each.in_words() for each in done))
    return int(any(each.problem is not None for each in done))


if __name__ == "__main__":
    sys.exit(main())

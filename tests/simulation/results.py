"""What was run so far of one state of the code, in a file that the next run goes on with."""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".simulation"
PAGE = ROOT / "docs/internals/simulation.md"
BEGIN, END = "<!-- results: make simulate ARGS=--write -->", "<!-- end of results -->"
_NOT_RUN = {
    f"simulation.{name}" for name in ("results", "campaign", "mutator", "mutants", "mutations", "seeds", "__main__")
}


def state() -> str:
    """Of the files that a run is made of. Any change of one of them begins anew."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(_files()):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _files() -> Iterator[Path]:
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name.split(".")[0] in ("farmiq", "simulation", "support") and name not in _NOT_RUN:
            yield Path(path).resolve()


class Results:
    """One line for each run, by its key. A line that a killed process left half written is not there."""

    def __init__(self, name: str) -> None:
        self.path = FOLDER / f"{name}-{state()}.jsonl"
        self.rows: dict[Any, dict[str, Any]] = {}
        if self.path.exists():
            whole, _, half = self.path.read_text().rpartition("\n")
            if half:
                self.path.write_text(f"{whole}\n" if whole else "")
            self.rows = {row["key"]: row for row in map(json.loads, whole.splitlines())}

    def add(self, row: Mapping[str, Any]) -> None:
        self.rows[row["key"]] = dict(row)
        FOLDER.mkdir(exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def sums_of(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update({name: value for name, value in row.items() if name not in ("key", "broken")})
        total.update(seeds=1, broken=1 if row["broken"] else 0)
    return total


def table() -> str:
    """For the page, from the two files of this state."""
    seeds, mutated = Results("seeds"), Results("mutations")
    total = sums_of(seeds.rows.values())
    states = Counter(row["state"] for row in mutated.rows.values())
    judged = states["found"] + states["survived"]
    lines = [
        "| | |",
        "|---|---:|",
        f"| state of the code | `{state()}` |",
        *(
            f"| {words} | {total[name]:,} |"
            for name, words in (
                ("seeds", "seeds"),
                ("broken", "seeds that broke a promise"),
                ("faults", "faults"),
                ("accepted", "samples accepted"),
                ("in_cloud", "of them stored once in the cloud"),
                ("declared_lost", "sequences declared lost, with what was never accepted"),
            )
        ),
        f"| hours of virtual time | {total['virtual_seconds'] / 3600:,.1f} |",
        f"| minutes of processor time | {total['cpu_seconds'] / 60:,.1f} |",
        f"| mutations made | {len(mutated.rows)} |",
        f"| of them found | {states['found']} |",
        f"| survived | {states['survived']} |",
        f"| ended by themselves, in an error or without an end: not counted | {states['crashed'] + states['hung']} |",
        f"| share found | {100 * states['found'] / judged if judged else 0:.1f} % |",
    ]
    return "\n".join(lines)


def write_page() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}")

"""The measured part of the page, put between its marks; the rest of the page is written by people and stays."""

from collections.abc import Sequence
from pathlib import Path

from page import tables
from page.aims import AIMS
from page.measured import Run, missing, runs_in
from page.plots import pictures
from page.tables import of_their_own

BEGIN = "<!-- measured: made by `make bench` from benchmarks/results, and replaced by the next run -->"
END = "<!-- measured: end -->"

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
PICTURES = ROOT / "docs" / "images" / "bench"
RESULTS = ROOT / "benchmarks" / "results"

_ALT = {
    "aims.svg": "How far each aim is reached",
    "power_cut.svg": "What can be read after a power cut of what was acknowledged",
}


class MarksMissing(Exception):
    """The page has lost the two marks between which the results stand. The message has them."""


class NothingMeasured(Exception):
    """There are no results to make the page of. The message has the command that measures some."""


def measured_part(runs: Sequence[Run], without: Sequence[str]) -> str:
    """`without` names the benchmarks that gave no result."""
    drawn = pictures(runs)
    lines = [
        "## Last run", "",
        *introduction(runs, without), "",
        *tables.ratios(runs), "",
        *picture("aims.svg"), "",
        "### Beside each peer", "",
        *tables.beside_peers(runs), "",
        *(line for name in drawn if name not in _ALT for line in (*picture(name), "")),
    ]  # fmt: skip
    for run in runs:
        if run.power_cut:
            lines += power_cuts(run)
    lines += ["### Where the numbers come from", "", *tables.origins(runs), "", *remarks(runs)]
    return "\n".join(lines)


def introduction(runs: Sequence[Run], without: Sequence[str]) -> list[str]:
    aimed = [outcome for outcome in of_their_own(runs) if outcome.name in AIMS]
    short = [f"`{outcome.name}`" for outcome in aimed if not AIMS[outcome.name].is_met(outcome)]
    machine = runs[0].machine
    loads = [run.machine["load_at_start"] for run in runs]
    commits = ", ".join(sorted({run.commit for run in runs}))
    hardware = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_mb'] / 1000:.0f} GB, {machine['file_system']}"
    said = [
        f"Commit {commits}. {hardware}, Python {machine['python']}, {machine['system']}.",
        f"Load at the start of each benchmark: {min(loads)} to {max(loads)} on {machine['cores']} cores.",
        f"{len(aimed) - len(short)} of {len(aimed)} aims are met{'; not met: ' + ', '.join(short) if short else ''}.",
    ]
    if any("--quick" in run.command for run in runs):
        said.append("Short runs (`--quick`): fewer samples, mostly one round, so most ratios have no spread.")
    if max(loads) > machine["cores"]:
        said.append("Other work was running on the machine: values are low and waits are long, so read the ratios.")
    if without:
        said.append(f"**No result** in this run: {', '.join(without)}.")
    return [" ".join(said)]


def picture(name: str) -> list[str]:
    said = _ALT.get(name, f"{name.removesuffix('.svg')}: we beside others")
    return [f"![{said}](images/bench/{name})"]


def power_cuts(run: Run) -> list[str]:
    lines = ["### After a power cut", "", *picture("power_cut.svg"), ""]
    for ending in dict.fromkeys(row["ending"] for row in run.power_cut):
        lines += [f"{ending.capitalize()}:", "", *tables.power_cuts(run, ending), ""]
    return lines


def remarks(runs: Sequence[Run]) -> list[str]:
    return [f"- *{run.benchmark}*: {' '.join(run.remarks)}" for run in runs if run.remarks]


def page_with(page: str, measured: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not (begin and end):
        raise MarksMissing(f"put these two lines where the results belong, and run it again:\n{BEGIN}\n{END}")
    return f"{before}{BEGIN}\n\n{measured.rstrip()}\n\n{END}{after}"


def write(results: Path = RESULTS, page: Path = PAGE, folder: Path = PICTURES) -> None:
    runs = runs_in(results)
    if not runs:
        raise NothingMeasured(f"{results} holds no results: run make bench")
    measured = measured_part(runs, missing(runs, ROOT / "benchmarks"))
    page.write_text(page_with(page.read_text(encoding="utf-8"), measured), encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = pictures(runs)
    for old in folder.glob("*.svg"):
        if old.name not in drawn:
            old.unlink()
    for name, text in drawn.items():
        (folder / name).write_text(text, encoding="utf-8")

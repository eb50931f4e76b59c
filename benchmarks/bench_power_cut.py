"""A power cut for the node's spool and for the stores of other gateways: what was written, what had been acknowledged to the
writer, and what can be read afterwards.

Every store is written to at the same pace and loses power at the same moments, which the seed decides. How that is done without
pulling a plug, what survives and what this cannot show stands at the top of `power_cut/__init__.py`.
"""

import argparse
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from harness import (
    Progress,
    Result,
    arguments,
    in_turn,
    machine,
    peer_versions,
    peers_remark,
    quiet_logs,
    report,
    scratch,
    write_json,
)
from power_cut.contenders import CONTENDERS, GATEWAY, PERSIST_QUEUE, SPOOL, SQLITE, Contender
from power_cut.lives import Ending, LifeFailed, Pace, cuts_of, deaths, lived, python_of
from power_cut.verdict import Verdict, total

PEER_NAMES = ("persist-queue", "thingsboard-gateway")
POWER_CUTS = (Ending.NOTHING, Ending.SOME)
ENDINGS = {
    Ending.KILLED: "only the process dies",
    Ending.NOTHING: "power cut, nothing unsynced survives",
    Ending.SOME: "power cut, part of it was written back",
}


@dataclass(frozen=True, slots=True)
class Plan:
    lives: int
    pace: Pace
    cuts: int  # of each life
    seed: int
    contenders: tuple[Contender, ...]
    peers_python: Path | None  # None: their environment is missing, so they are left out


class Verdicts:
    """By store, by ending, one for each cut."""

    def __init__(self) -> None:
        self._all: dict[str, dict[Ending, list[Verdict]]] = defaultdict(lambda: defaultdict(list))

    def add(self, store: str, verdicts: dict[Ending, list[Verdict]]) -> None:
        for ending, each in verdicts.items():
            self._all[store][ending] += each

    def of(self, store: str, *endings: Ending) -> list[Verdict]:
        return [verdict for ending in endings for verdict in self._all[store][ending]]


def measure(plan: Plan, folder: Path) -> Verdicts:
    verdicts = Verdicts()
    progress = Progress(plan.lives * len(plan.contenders))
    for number in range(plan.lives):
        for name in in_turn([contender.entry.name for contender in plan.contenders], number):
            contender = CONTENDERS[name]
            progress.step(f"life {number + 1} of {plan.lives}, {plan.cuts} cuts: {contender.entry.title}")
            python, place = python_of(contender, plan.peers_python), folder / f"{name}-{number}"
            life = lived(contender, python, place, plan.pace)
            verdicts.add(name, deaths(contender, python, life, place, cuts_of(plan.seed + number, plan.cuts)))
            shutil.rmtree(place)
    progress.end()
    return verdicts


def outcome(plan: Plan, verdicts: Verdicts) -> Iterator[Result]:
    """Of what was acknowledged, how much can be read: after power cuts, then after kills alone."""
    for prefix, endings in (("power_cut", POWER_CUTS), ("power_cut_killed", (Ending.KILLED,))):
        for contender in plan.contenders:
            yield kept(f"{prefix}_{contender.entry.name}", contender, verdicts.of(contender.entry.name, *endings))


def kept(name: str, contender: Contender, verdicts: Sequence[Verdict]) -> Result:
    whole = total(verdicts)
    if not whole.acknowledged:
        raise LifeFailed(
            f"{contender.entry.title} acknowledged nothing before its cuts: a longer life is needed (--seconds)"
        )
    shares = [each.acknowledged_and_readable / each.acknowledged for each in verdicts if each.acknowledged]
    return Result(
        name=name,
        value=whole.acknowledged_and_readable,
        unit="samples",
        against=f"acknowledged by {contender.entry.title}",
        ratio=whole.acknowledged_and_readable / whole.acknowledged,
        against_value=whole.acknowledged,
        spread=(min(shares), max(shares)),
        rounds=len(verdicts),
        note=spoken(whole),
    )


def spoken(whole: Verdict) -> str:
    parts = [
        f"{whole.lost:,} lost after they were acknowledged" if whole.lost else "",
        f"{whole.twice:,} came twice" if whole.twice else "",
        f"{whole.wrong:,} wrong" if whole.wrong else "",
        f"unreadable after {whole.cuts_unreadable} of {whole.cuts} cuts" if whole.cuts_unreadable else "",
        f"did not go on after {whole.cuts_that_end_it} of {whole.cuts} cuts" if whole.cuts_that_end_it else "",
    ]
    return ", ".join(filter(None, parts))


def details(plan: Plan, verdicts: Verdicts) -> list[dict[str, Any]]:
    return [
        {
            "store": contender.entry.name,
            "title": contender.entry.title,
            "promise": contender.promise,
            "ending": ENDINGS[ending],
            **total(verdicts.of(contender.entry.name, ending)).as_json(),
        }
        for ending in ENDINGS
        for contender in plan.contenders
    ]


def show_details(rows: Sequence[dict[str, Any]]) -> None:
    columns = {"written": "written", "acknowledged": "acknowledged", "readable": "readable afterwards"} | {
        "lost": "lost after ack", "twice": "twice", "cuts_unreadable": "unreadable", "cuts_that_end_it": "does not go on",
    }  # fmt: skip
    table = Table(title="In samples; the last two in cuts", title_justify="left", box=None, header_style="bold")
    for heading in ("ending", "store", "cuts", *columns.values()):
        table.add_column(heading, justify="left" if heading in {"ending", "store"} else "right")
    for row in rows:
        table.add_row(row["ending"], row["title"], str(row["cuts"]), *(f"{row[name]:,}" for name in columns))
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(table)


def remarks(plan: Plan, versions: dict[str, str] | None) -> list[str]:
    lives = "one life" if plan.lives == 1 else f"{plan.lives} lives"
    return [
        f"Seed {plan.seed}: {lives} of {plan.pace.seconds:g} s with {plan.cuts} cuts each, the same for every store.",
        f"{plan.pace.polls_a_second:g} times a second one sample of each of 10 channels, one sample a record.",
        "Simulated from the log of the writer's system calls: a sync counts, what was not synced is lost or partly written back.",
        peers_remark(PEER_NAMES, versions),
    ]


def planned(given: argparse.Namespace, peers_python: Path | None) -> Plan:
    contenders: tuple[Contender, ...] = (SPOOL, *SQLITE)
    if peers_python:
        contenders += GATEWAY if given.quick else (*GATEWAY, *PERSIST_QUEUE)
    return Plan(
        lives=given.lives or (1 if given.quick else 3),
        pace=Pace(given.seconds or (2.0 if given.quick else 5.0), polls_a_second=50.0),
        cuts=given.cuts or (5 if given.quick else 8),
        seed=given.seed,
        contenders=contenders,
        peers_python=peers_python,
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=1, help="decides the moments of the cuts and what survives them")
    parser.add_argument("--lives", type=int, help="how often each store is written to from the start")
    parser.add_argument("--seconds", type=float, help="how long each of these takes")
    parser.add_argument("--cuts", type=int, help="how often the power fails in each of them")
    given = parser.parse_args(argv)
    quiet_logs()
    if shutil.which("strace") is None:
        sys.exit(
            "strace is not installed, and the power cuts are made from its log. Install it with: tools/bootstrap.sh bench"
        )
    versions = peer_versions(given.peers_python, PEER_NAMES)
    plan = planned(given, given.peers_python if versions else None)
    with scratch(given.folder) as folder:
        facts = machine(folder)
        verdicts = measure(plan, folder)
    results, rows, told = list(outcome(plan, verdicts)), details(plan, verdicts), remarks(plan, versions)
    report("A power cut", results, facts, told)
    show_details(rows)
    if given.json:
        write_json(given.json, "power_cut", results, facts, remarks=told, power_cut=rows)


if __name__ == "__main__":
    main()

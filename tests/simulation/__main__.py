"""`make simulate`: many seeds, or one of them again with everything that happened in it."""

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from simulation.mutations import MUTATIONS
from simulation.world import Outcome, run

SHOWN = 12
TOLD_EVERY_SECONDS = 5.0


class Result(NamedTuple):
    """What is worth bringing back from another process."""

    seed: int
    broken: list[str]
    faults: int
    seconds: float
    figures: dict[str, Any]


def main() -> int:
    options = _options()
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")  # of processes killed before they began
    if options.seed is not None:
        return _show(options.seed, options.mutation)
    first, began = options.first, time.monotonic()
    say(f"{options.seeds} seeds from {first} on. One again: make simulate ARGS='--seed N'")
    failed, sums = _campaign(options, began)
    minutes = (time.monotonic() - began) / 60
    done = sums["seeds"]
    say(
        f"{done} seeds in {minutes:.1f} min ({done / minutes:.0f} a minute, {done / _cpu_minutes():.0f} a minute of"
        f" processor time): {sums['faults']} faults,"
        f" {sums['accepted']} samples accepted, {sums['in_cloud']} stored once in the cloud,"
        f" {sums['declared_lost']} declared lost, {sums['virtual_hours']:.1f} hours of virtual time"
    )
    if not failed:
        say("No promise was broken.")
        return 0
    say(f"{len(failed)} seeds broke a promise: {' '.join(str(one.seed) for one in failed)}")
    return _show(failed[0].seed, options.mutation)


def _campaign(options: argparse.Namespace, began: float) -> tuple[list[Result], Counter[str]]:
    failed: list[Result] = []
    sums: Counter[str] = Counter()
    told_at = began
    for result in _results(options):
        sums.update(seeds=1, faults=result.faults, **result.figures)
        sums["virtual_hours"] += result.seconds / 3600  # type: ignore[assignment]  # the only one that is not counted in whole
        if result.broken:
            failed.append(result)
            say(f"seed {result.seed}: {result.broken[0]}")
            if options.mutation or len(failed) >= SHOWN:
                break
        if options.minutes is not None and time.monotonic() - began > options.minutes * 60:
            break
        if time.monotonic() - told_at > TOLD_EVERY_SECONDS:
            told_at = time.monotonic()
            rate = sums["seeds"] / (told_at - began) * 60
            say(f"  {sums['seeds']}/{options.seeds} seeds, {rate:.0f} a minute, {len(failed)} failed")
    return failed, sums


def _results(options: argparse.Namespace) -> Iterator[Result]:
    seeds = range(options.first, options.first + options.seeds)
    mutations = [options.mutation] * len(seeds)
    if options.jobs == 1:
        yield from map(_run, seeds, mutations)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        yield from pool.map(_run, seeds, mutations, chunksize=10)


def _run(seed: int, mutation: str | None) -> Result:
    with _mutated(mutation):
        outcome = run(seed)
    return Result(seed, outcome.broken, outcome.faults, outcome.seconds, outcome.figures)


def _show(seed: int, mutation: str | None) -> int:
    with _mutated(mutation):
        outcome = run(seed)
    for line in outcome.lines:
        say(str(line))
    say("")
    say(f"seed {seed}: {describe(outcome)}")
    return 1 if outcome.broken else 0


def describe(outcome: Outcome) -> str:
    """What a person needs to begin: the plan, the figures, and what is wrong."""
    broken = outcome.broken[:SHOWN]
    more = len(outcome.broken) - len(broken)
    lines = [
        f"{outcome.faults} faults in {outcome.seconds:.0f} s of virtual time, {outcome.figures}, digest {outcome.digest}",
        f"plan: {outcome.plan}",
        *(f"BROKEN {what}" for what in broken),
        *([f"... and {more} more"] if more else []),
        *([] if broken else ["No promise was broken."]),
    ]
    return "\n  ".join(lines)


def _mutated(mutation: str | None) -> AbstractContextManager[Any]:
    return MUTATIONS[mutation]() if mutation else nullcontext()


def _cpu_minutes() -> float:
    """Of this process and its helpers: what a seed costs, on a machine that has other things to do as well."""
    return sum(os.times()[:4]) / 60


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--minutes", type=float, help="end after so long, whatever is left")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="only this one, with its events")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument(
        "--mutation", choices=sorted(MUTATIONS), help="with this fault in our own code, until it is found"
    )
    return parser.parse_args()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

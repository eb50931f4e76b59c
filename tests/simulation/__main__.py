"""`make simulate`: many seeds, or many mutations of our own code, or one seed again with everything that happened in it."""

import argparse
import contextlib
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from simulation.campaign import attack, run_seed
from simulation.mutants import mutations
from simulation.mutations import MUTATIONS
from simulation.results import Results, sums_of, write_page
from simulation.world import Outcome, run

SHOWN = 12
PROGRESS_SECONDS = 5.0
SEEDS, SEEDS_OF_A_MUTATION = 1000, 100


def main() -> int:
    options = _options()
    warnings.filterwarnings("ignore", message="coroutine .* was never awaited")  # of processes killed before they began
    if options.seed is not None:
        return _show(options.seed, options.mutation)
    if options.write:
        write_page()
        return 0
    if options.mutation:
        return _find(options)
    return _mutate(options) if options.mutate else _campaign(options)


def _campaign(options: argparse.Namespace) -> int:
    """Every result is written down. With `--resume`, a seed that has one for this state of the code is not run again."""
    results, began = Results("seeds"), time.monotonic()
    seeds = range(options.first, options.first + (options.seeds or SEEDS))
    earlier = [results.rows[seed] for seed in seeds if options.resume and seed in results.rows]
    left = [seed for seed in seeds if not (options.resume and seed in results.rows)]
    say(f"{len(seeds)} seeds from {options.first} on, {len(earlier)} of them were run before: {results.path.name}")
    failed = [row for row in earlier if row["broken"]]
    rows = list(earlier)
    shown_at = began
    for row in _results(left, options.jobs):
        results.add(row)
        rows.append(row)
        if row["broken"]:
            failed.append(row)
            say(f"seed {row['key']}: {row['broken'][0]}")
        now = time.monotonic()
        if len(failed) >= SHOWN or (options.minutes is not None and now - began > options.minutes * 60):
            break
        if now - shown_at > PROGRESS_SECONDS:
            shown_at = now
            rate = (len(rows) - len(earlier)) / (now - began) * 60
            say(f"  {len(rows)}/{len(seeds)} seeds, {rate:.0f} a minute, {len(failed)} failed")
    say(_summary(rows))
    if not failed:
        say("No promise was broken.")
        return 0
    say(f"{len(failed)} seeds broke a promise: {' '.join(str(row['key']) for row in failed)}")
    return _show(failed[0]["key"], None)


def _results(seeds: list[int], jobs: int) -> Iterator[dict[str, Any]]:
    if jobs == 1:
        yield from map(run_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(run_seed, seeds, chunksize=10)


def _summary(rows: Iterable[dict[str, Any]]) -> str:
    sums = sums_of(rows)
    cpu_minutes = sums["cpu_seconds"] / 60
    return (
        f"{sums['seeds']} seeds in {cpu_minutes:.1f} min of processor time"
        f" ({sums['seeds'] / max(cpu_minutes, 1e-9):.0f} a minute):"
        f" {sums['faults']} faults, {sums['accepted']} samples accepted, {sums['in_cloud']} stored once in the cloud,"
        f" {sums['declared_lost']} declared lost, {sums['virtual_seconds'] / 3600:.1f} hours of virtual time"
    )


def _mutate(options: argparse.Namespace) -> int:
    """Every mutation that the tool can make, or so many of each function; goes on where an earlier run ended."""
    results, began = Results("mutations"), time.monotonic()
    chosen = mutations(options.of_each)
    count = options.seeds or SEEDS_OF_A_MUTATION
    say(f"{len(chosen)} mutations, up to {count} seeds each: {results.path.name}")
    for row in attack(chosen, options.first, count, results):
        say(f"{row['state']:9} {row['seeds']:5} seeds  {row['where']} {row['key'].split(':', 1)[1]}")
        if row["state"] != "found":
            say("    " + row["diff"].replace("\n", "\n    "))
        if options.minutes is not None and time.monotonic() - began > options.minutes * 60:
            break
    states = Counter(results.rows[one.name]["state"] for one in chosen if one.name in results.rows)
    judged = states["found"] + states["survived"]
    say(
        f"{judged} of {len(chosen)} mutations judged: {states['found']} found, {states['survived']} survived;"
        f" {states['crashed'] + states['hung']} more ended by themselves"
    )
    return 1 if states["survived"] else 0


def _find(options: argparse.Namespace) -> int:
    for seed in range(options.first, options.first + (options.seeds or SEEDS)):
        with _mutated(options.mutation):
            broken = run(seed).broken
        if broken:
            return _show(seed, options.mutation)
    say(f"{options.mutation} was not found.")
    return 1


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


def _mutated(name: str | None) -> AbstractContextManager[Any]:
    """One of those that a person wrote, or one that the tool made."""
    if name is None:
        return nullcontext()
    if name in MUTATIONS:
        return MUTATIONS[name]()
    return next(one for one in mutations() if one.name == name).applied()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, help=f"how many: {SEEDS}; of a mutation until it is found, {SEEDS_OF_A_MUTATION}"
    )
    parser.add_argument("--minutes", type=float, help="end after so long, whatever is left")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--resume", action="store_true", help="go on with what was run of this state of the code")
    parser.add_argument("--seed", type=int, help="only this one, with its events")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--mutation", help="with this fault in our own code, until it is found")
    parser.add_argument(
        "--mutate",
        action="store_true",
        help="every mutation that the tool can make of our code, each until it is found",
    )
    parser.add_argument("--of-each", type=int, help="so many mutations of each function, always the same ones")
    parser.add_argument(
        "--write", action="store_true", help="write the results so far into docs/internals/simulation.md"
    )
    return parser.parse_args()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())

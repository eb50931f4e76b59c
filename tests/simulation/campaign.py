"""Many seeds, or many mutations with as many seeds as each needs. Both go on where an earlier run ended."""

import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from simulation.mutants import seeds_for
from simulation.mutator import Mutation
from simulation.results import Results
from simulation.world import Outcome, run

MEMORY_BYTES_MAX = 3 * 1024**3
RUN_SECONDS_MAX = 30.0
CRASHES_MAX = 5

_BY_ITSELF = (
    "TypeError(", "AttributeError(", "NameError(", "UnboundLocalError(", "KeyError(", "IndexError(", "ValueError(",
    "AssertionError(", "InvalidStateError(", "a statement without a model",
)  # fmt: skip


def row_of(seed: int, outcome: Outcome, cpu_seconds: float) -> dict[str, Any]:
    return {
        "key": seed, "broken": outcome.broken[:3], "faults": outcome.faults, **outcome.figures,
        "virtual_seconds": round(outcome.seconds, 1), "cpu_seconds": round(cpu_seconds, 3),
    }  # fmt: skip


def run_seed(seed: int) -> dict[str, Any]:
    began = time.process_time()
    outcome = run(seed)
    return row_of(seed, outcome, time.process_time() - began)


def is_crash(broken: Sequence[str]) -> bool:
    """The mutation broke the code by itself, which any test would see: that is no proof of anything."""
    return any(text in one for one in broken for text in _BY_ITSELF)


def attack(mutations: Iterable[Mutation], first: int, count: int, results: Results) -> Iterator[dict[str, Any]]:
    """Each mutation with so many seeds until one finds it. One that survived fewer seeds earlier goes on with the rest."""
    for mutation in mutations:
        known = results.rows.get(mutation.name, {"state": "survived", "seeds": 0})
        if known["state"] != "survived" or known["seeds"] >= count:
            continue
        seeds = seeds_for(mutation, first, count)[known["seeds"] :]
        verdict = _attacked(mutation, seeds)
        verdict["seeds"] += known["seeds"]
        row = {"key": mutation.name, "where": mutation.where, "diff": mutation.diff, **verdict}
        results.add(row)
        yield row


def _attacked(mutation: Mutation, seeds: Sequence[int]) -> dict[str, Any]:
    """In a process of its own: a mutation may never come to an end, or eat the memory."""
    here, there = get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            here.close()
            _in_child(mutation, seeds, there)
        finally:
            os._exit(0)  # its last word is in the pipe, or it is missing there
    there.close()
    try:
        return _verdict(here)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        here.close()


def _verdict(runs: Connection) -> dict[str, Any]:
    done = crashes = 0
    while runs.poll(RUN_SECONDS_MAX):
        try:
            seed, broken = runs.recv()
        except EOFError:
            break
        if seed is None:
            return {"state": "crashed" if crashes else "survived", "seed": None, "seeds": done, "broken": ""}
        done += 1
        crashes += is_crash(broken)
        if crashes == CRASHES_MAX or (broken and not is_crash(broken)):
            state = "crashed" if is_crash(broken) else "found"
            return {"state": state, "seed": seed, "seeds": done, "broken": broken[0][:300]}
    return {"state": "hung", "seed": None, "seeds": done, "broken": ""}


def _in_child(mutation: Mutation, seeds: Sequence[int], there: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    with mutation.applied():
        for seed in seeds:
            there.send((seed, run(seed).broken))
    there.send((None, []))

"""Many seeds, or many mutations with as many seeds as each needs. Both go on where an earlier run ended."""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from simulation.mutator import Mutation
from simulation.results import Results
from simulation.world import Outcome, run

MEMORY_BYTES_MAX = 3 * 1024**3
RUN_SECONDS_MAX = 120.0
CRASHES_MAX = 5

_BY_ITSELF = (
    "TypeError(", "AttributeError(", "NameError(", "UnboundLocalError(", "KeyError(", "IndexError(", "ValueError(", "AssertionError(",
    "a statement without a model",
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


def attack(mutations: Iterable[Mutation], seeds: Sequence[int], results: Results) -> Iterator[dict[str, Any]]:
    """Each mutation with these seeds until one finds it. One that survived fewer seeds earlier goes on with the rest. `touched`:
    how many of the seeds it has changed at all."""
    digests: dict[int, str] = {}
    for mutation in mutations:
        known = results.rows.get(mutation.name)
        if known is not None and (known["state"] != "survived" or known["seeds"] >= len(seeds)):
            continue
        row = {
            "key": mutation.name, "where": mutation.where, "diff": mutation.diff,
            **_attacked(mutation, seeds[known["seeds"] if known else 0 :], digests),
        }  # fmt: skip
        for name in ("seeds", "touched"):
            row[name] += known[name] if known else 0
        results.add(row)
        yield row


def _attacked(mutation: Mutation, seeds: Sequence[int], digests: dict[int, str]) -> dict[str, Any]:
    """In a process of its own: a mutation may never come to an end, or eat the memory."""
    for seed in seeds:
        if seed not in digests:
            digests[seed] = run(seed).digest
    here, there = get_context("fork").Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            here.close()
            _in_child(mutation, seeds, there)
        os._exit(0)
    there.close()
    crashes = done = touched = 0
    state, seed, broken = "survived", None, ""
    try:
        while here.poll(RUN_SECONDS_MAX):
            seed_run, digest, seen = here.recv()
            if seed_run is None:
                break
            done += 1
            touched += digest != digests.get(seed_run)
            if is_crash(seen):
                crashes += 1
                if crashes == CRASHES_MAX:
                    state, seed, broken = "crashed", seed_run, seen[0]
                    break
            elif seen:
                state, seed, broken = "found", seed_run, seen[0]
                break
        else:
            state = "hung"
    except EOFError:
        state = "hung"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        here.close()
    if state == "survived" and crashes:
        state = "crashed"
    return {"state": state, "seed": seed, "seeds": done, "touched": touched, "broken": broken[:300]}


def _in_child(mutation: Mutation, seeds: Sequence[int], there: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    with mutation.applied():
        for seed in seeds:
            outcome = run(seed)
            there.send((seed, outcome.digest, outcome.broken))
    there.send((None, "", []))

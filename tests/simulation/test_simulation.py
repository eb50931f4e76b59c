"""A few hundred seeds, and those that once failed. The long form: make simulate ARGS="--seeds 5000"."""

import gc
from collections.abc import Iterator

import pytest

from simulation.__main__ import describe
from simulation.seeds import FOUND
from simulation.world import run

SEEDS = [*FOUND, *range(100)]
GROUP = 5

# A process that is killed before it did anything leaves coroutines that nobody ever awaited: that is what killed means.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """What a run leaves is collected here, where its warnings are expected."""
    yield
    gc.collect()


@pytest.mark.parametrize("first", range(0, len(SEEDS), GROUP))
def test_no_seed_breaks_the_promise(first: int) -> None:
    outcomes = [run(seed) for seed in SEEDS[first : first + GROUP]]
    assert not [f"seed {one.seed}: {describe(one)}" for one in outcomes if one.broken]
    assert sum(one.figures["accepted"] for one in outcomes) > 0
    assert sum(one.faults for one in outcomes) > 0


@pytest.mark.parametrize("seed", [3, 11])
def test_a_seed_gives_the_same_run_again(seed: int) -> None:
    first, second = run(seed), run(seed)
    assert first.lines == second.lines
    assert (first.digest, first.figures) == (second.digest, second.figures)

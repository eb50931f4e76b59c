"""The simulation has teeth: each fault that is put into our own code is found within a few seeds."""

import gc
from collections.abc import Iterator

import pytest

from simulation.campaign import is_crash
from simulation.mutants import mutations
from simulation.mutations import MUTATIONS
from simulation.world import run

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

# A seed that finds it. When the simulation changes, another one near it does, and belongs here.
FIRST = {
    "node_trusts_puback": 0,
    "node_forgets_the_epoch": 28,
    "refusals_are_final": 134,
    "spool_drops_without_a_word": 160,
    "spool_never_syncs": 9,
    "gateway_tells_before_the_commit": 6,
    "edge_database_commits_without_a_sync": 14,
    "outbox_has_no_fence": 112,
    "entrance_commits_before_the_bus_confirms": 2,
    "store_acknowledges_before_the_commit": 6,
    "edge_believes_a_late_answer": 0,
    "cloud_does_not_compare_what_was_heard": 225,
    "cloud_remembers_what_it_may_have_lost": 473,
    "stores_whatever_comes": 0,
    "digest_counts_what_was_delivered": 2,
}
SEEDS_MAX = 40

# Some of what the tool makes, each with a seed that finds it: make simulate ARGS="--mutate".
MADE: dict[str, int] = {}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    gc.collect()


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_the_simulation_finds_that(mutation: str) -> None:
    first = FIRST[mutation]
    with MUTATIONS[mutation]():
        found = next((broken for seed in range(first, first + SEEDS_MAX) if (broken := run(seed).broken)), [])
    assert found
    assert not is_crash(found), "the mutation does not fit the code any more, and broke it by itself"


@pytest.mark.parametrize("name", MADE)
def test_the_simulation_finds_what_the_tool_makes(name: str) -> None:
    mutation = next(one for one in mutations() if one.name == name)
    with mutation.applied():
        broken = run(MADE[name]).broken
    assert broken
    assert not is_crash(broken)

"""The simulation has teeth: each fault that is put into our own code is found within a few seeds."""

import gc
from collections.abc import Iterator

import pytest

from simulation.mutations import MUTATIONS
from simulation.world import run

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

# A seed that finds it. When the simulation changes, another one near it does, and belongs here.
FIRST = {
    "node_trusts_puback": 6,
    "node_forgets_the_epoch": 1,
    "refusals_are_final": 404,
    "spool_drops_without_a_word": 22,
    "spool_never_syncs": 1,
    "gateway_tells_before_the_commit": 3,
    "edge_database_commits_without_a_sync": 2,
    "outbox_has_no_fence": 112,
    "entrance_commits_before_the_bus_confirms": 2,
    "store_acknowledges_before_the_commit": 6,
    "cloud_does_not_compare_what_was_heard": 98,
    "cloud_remembers_what_it_may_have_lost": 185,
    "stores_whatever_comes": 0,
    "digest_counts_what_was_delivered": 0,
}
SEEDS_MAX = 40


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
    own = [said for said in found if "TypeError(" in said or "AttributeError(" in said]
    assert own == [], "the mutation does not fit the code any more, and broke it by itself"

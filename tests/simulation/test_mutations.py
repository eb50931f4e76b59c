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
    "refusals_are_final": 81,
    "spool_drops_without_a_word": 160,
    "spool_never_syncs": 9,
    "gateway_tells_before_the_commit": 6,
    "edge_database_commits_without_a_sync": 14,
    "outbox_has_no_fence": 16,
    "entrance_commits_before_the_bus_confirms": 5,
    "store_acknowledges_before_the_commit": 106,
    "cloud_does_not_compare_what_was_heard": 225,
    "cloud_remembers_what_it_may_have_lost": 211,
    "stores_whatever_comes": 0,
    "digest_counts_what_was_delivered": 2,
}
SEEDS_MAX = 40

# Some of what the tool makes, each with a seed that finds it: make simulate ARGS="--mutate".
MADE: dict[str, int] = {
    "farmiq.edge.ingress_gateway.handlers:_split: `key in unused` becomes `key not in unused`": 19,
    "farmiq.timeseries.admission:admit_batches: `await _write(connection, rows, minutes, touched)` is left out": 6,
    "farmiq.outbox.settle:settle: `outcome.status == 'acked'` becomes `outcome.status != 'acked'`": 16,
    "simulation.outbox_tables:_claim: `row.tenant_id == tenant_id` becomes `row.tenant_id != tenant_id`": 11,
    "simulation.cloud_tables:_answer: `row.epoch != epoch` becomes `row.epoch == epoch`": 11,
    "farmiq.edge.sync_forwarder.cloud_epochs:judge: `known.epoch in {None, asked_under.epoch}` becomes "
    "`known.epoch not in {None, asked_under.epoch}`": 11,
    "farmiq.edge.sync_forwarder.settlement:_hear: `await store.begin_epoch(connection, tenant_id, said)` is "
    "left out": 11,
    "farmiq.edge.ingress_gateway.acknowledgements:Pending.note: `epoch != self._epoch` becomes `epoch == "
    "self._epoch`": 6,
}


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

"""The tool that mutates our code: what it makes, that it is undone, and what does not count."""

from pathlib import Path

import pytest

from farmiq.timeseries import admission
from farmiq.timeseries.coverage import contiguous_to
from simulation import results
from simulation.campaign import is_crash, row_of
from simulation.mutants import EQUIVALENT, OUTSIDE, all_made, mutations, seeds_for
from simulation.mutator import mutations_of
from simulation.results import Results, sums_of
from simulation.world import run

COVERAGE = "farmiq.timeseries.coverage"


def test_a_mutation_changes_the_function_for_everybody_and_is_undone() -> None:
    mutation = next(
        one
        for one in mutations_of(COVERAGE, ["contiguous_to"])
        if one.what == "`filled[0][0] > 1` becomes `filled[0][0] >= 1`"
    )
    assert contiguous_to([(1, 5)]) == 4
    with mutation.applied():
        assert contiguous_to([(1, 5)]) == 0
    assert contiguous_to([(1, 5)]) == 4
    assert mutation.where.startswith("src/farmiq/timeseries/coverage.py:")
    assert [line[0] for line in mutation.diff.splitlines()] == ["-", "+"]


def test_steps_are_swapped_only_where_neither_needs_the_other() -> None:
    made = [one.what for one in mutations_of("farmiq.edge.ingress_gateway.consumer", ["_Consumer.store"])]
    assert any("`self._mqtt.acknowledge(messages)` before `outcomes = await" in what for what in made)
    assert not any("`self._acks.note(outcomes)` before `outcomes = await" in what for what in made)


def test_clauses_guards_filters_and_extremes_are_mutated() -> None:
    made = {one.what for one in mutations_of("simulation.outbox_tables", ["_held", "_begin_epoch"])}
    assert any(what.startswith("the filter ") for what in made)
    assert any(what.endswith("without `_fence(row) == fence`") for what in made)
    assert "`max(state.answer, answer)` becomes `answer`" in made
    made = {one.what for one in mutations_of("farmiq.timeseries.admission", ["_take"])}
    assert "`if not stream.origin.is_same_device(item.origin)` never holds" in made
    assert admission._take.__code__.co_name == "_take"


def test_there_are_many_and_each_has_one_name() -> None:
    made = all_made()
    names = [one.name for one in made]
    assert len(names) == len(set(names)) >= 300
    assert EQUIVALENT.keys() | OUTSIDE.keys() <= set(names), "of code that is not there any more"
    chosen = mutations(per_function=1)
    assert [one.name for one in chosen] == [one.name for one in mutations(per_function=1)]
    assert len(chosen) >= 30
    assert seeds_for(chosen[0], 0, 3) == seeds_for(chosen[0], 0, 3)


def test_an_error_of_the_mutation_itself_is_no_proof() -> None:
    assert is_crash(["node-1 failed: [\"TypeError('no')\"]"])
    assert not is_crash(["node-1: sequence 7 was accepted and is nowhere"])
    assert not is_crash([])


def test_results_go_on_where_a_killed_run_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    first = Results("seeds")
    first.add(row_of(3, run(3), 0.5))
    first.add(row_of(4, run(4), 0.5))
    text = first.path.read_text()
    first.path.write_text(text[:-20])  # killed while it wrote
    again = Results("seeds")
    assert list(again.rows) == [3]
    again.add(row_of(4, run(4), 0.5))
    assert list(Results("seeds").rows) == [3, 4]
    assert sums_of(Results("seeds").rows.values())["seeds"] == 2

"""One short campaign by the real command: every kind of fault that is not on request, a whole farm, and nothing lost.

TORTURE_SEED and TORTURE_FAULTS in the environment make it another one, or a longer one."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from farmiq.torture.holdings import Verdicts
from farmiq.torture.judge import WRONG
from farmiq.torture.plan import ON_REQUEST, Kind

FARMIQ = Path(sys.executable).parent / "farmiq"
SEED: Final = int(os.environ.get("TORTURE_SEED", "9"))
FAULTS: Final = int(os.environ.get("TORTURE_FAULTS", "30"))
MINUTES: Final = FAULTS / 60

# On a machine that does other things too, starting and recovering takes longer than the faults.
pytestmark = pytest.mark.timeout(600 + 4 * FAULTS)


@pytest.fixture(scope="module")
def verdict(run_folder: Path) -> Any:
    told = subprocess.run(
        [FARMIQ, "torture", "--seed", str(SEED), "--faults", str(FAULTS), "--minutes", str(MINUTES), "--rate", "400", "--json",
         "--fresh-seconds", "300"],  # other tests run beside it: the 30 s of the command's default are those of an idle machine
        env=os.environ | {"FARMIQ_HOME": str(run_folder / "campaign")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert told.stdout, told.stderr
    return json.loads(told.stdout)


def test_nothing_is_lost_duplicated_altered_or_made_up(verdict: Any) -> None:
    parts = [field.name for field in fields(Verdicts)]
    tallies = {"poison": verdict["poison"]} | {what: verdict[what] for what in parts}
    tallies |= {f"{what} at the edge": verdict["edge"][what] for what in parts}
    for what, tally in tallies.items():
        wrong = {name: tally[name] for name in WRONG}
        assert not any(wrong.values()), (what, tally)
    assert verdict["samples"]["stored"] >= verdict["samples"]["accepted"] - verdict["samples"]["declared_lost"] > 1000
    assert verdict["events"]["stored"] > 50
    assert verdict["aggregates"]["stored"] > 50
    assert verdict["is_all_acknowledged"]


def test_the_farm_comes_back_by_itself(verdict: Any) -> None:
    assert verdict["recovery"]["left"] == []
    assert verdict["recovery"]["stuck"] == []
    assert verdict["recovery"]["drained_seconds"] is not None
    assert verdict["audit"] == "balanced"
    assert verdict["passed"]


def test_a_campaign_that_passed_leaves_nothing_behind(verdict: Any, run_folder: Path) -> None:
    assert verdict["passed"]
    assert not (run_folder / "campaign-torture" / str(SEED)).exists()


def test_every_kind_of_fault_was_there_that_is_not_on_request(verdict: Any) -> None:
    left_out = {reason.partition(":")[0] for reason in verdict["left_out"]}
    assert set(verdict["inflicted"]) == set(Kind) - ON_REQUEST - left_out
    assert verdict["faults"] + verdict["passed_over"] == FAULTS

from collections import Counter
from dataclasses import fields

import pytest

from farmiq.cli.errors import BadUsage
from farmiq.cli.torture import on_request, repeated
from farmiq.cli.torture_report import Lines, as_data, as_text, line_of
from farmiq.torture.campaign import Result, Standing, Wishes
from farmiq.torture.generators import Progress
from farmiq.torture.holdings import Verdicts
from farmiq.torture.judge import WRONG, Tally
from farmiq.torture.plan import Kind, Targets, make_plan
from farmiq.torture.recovery import Recovery

WELL = Recovery(healthy_seconds=1.0, fresh_seconds=2.0, drained_seconds=3.0)


def result(**changes: object) -> Result:
    given: dict[str, object] = {
        "seed": 7,
        "planned": 3,
        "inflicted": Counter({"kill": 2, "cut": 1}),
        "cloud": Verdicts(samples=Tally(accepted=100, stored=100)),
        "recovery": WELL,
        "is_all_acknowledged": True,
        "audit": "balanced",
    }
    return Result(**(given | changes))  # type: ignore[arg-type]  # each by its name


def test_a_campaign_passes_only_when_nothing_at_all_is_wrong() -> None:
    assert result().has_passed
    for wrong in WRONG:
        tally = Tally()
        tally.blame(wrong, "one")
        assert not result(poison=tally).has_passed
        for field in fields(Verdicts):
            verdicts = Verdicts(**{field.name: tally})
            assert not result(cloud=verdicts).has_passed
            assert not result(edge=verdicts).has_passed
    assert not result(recovery=Recovery(1.0, None, 3.0)).has_passed
    assert not result(recovery=Recovery(1.0, 2.0, None)).has_passed
    assert not result(recovery=Recovery(1.0, 2.0, 3.0, left=["outbox: 3 pending"])).has_passed
    assert not result(recovery=Recovery(1.0, 2.0, 3.0, stuck=["sync_outbox x"])).has_passed
    assert not result(is_all_acknowledged=False).has_passed
    for audit in ("not balanced", "not run", "failed with code 2: no such command"):
        assert not result(audit=audit).has_passed


def test_the_verdict_names_the_seed_the_figures_and_what_was_wrong() -> None:
    lost = Tally(accepted=10, stored=9)
    lost.blame("lost", "torture-1 5 to 5")
    text = as_text(result(cloud=Verdicts(samples=lost), passed_over=1, left_out=["disk-full: no"]))
    assert "seed 7: 3 faults" in text
    assert "1 passed over" in text
    assert "disk-full: no" in text
    assert "samples: accepted 10 = stored 9 + declared lost 0 · lost 1 · unexplained 0 · duplicated 0" in text
    assert "lost: torture-1 5 to 5" in text
    assert text.endswith("FAILED")
    assert as_text(result()).endswith("passed")


def test_the_data_has_the_verdict_and_the_sums() -> None:
    data = as_data(result())
    assert (data["seed"], data["faults"], data["passed"]) == (7, 3, True)
    assert data["inflicted"] == {"kill": 2, "cut": 1}
    assert data["samples"]["accepted"] == 100
    assert data["edge"]["samples"]["accepted"] == 0


def test_a_line_says_how_far_it_is() -> None:
    standing = Standing("faults", planned=9, inflicted=4, under_way=["cut wan"])
    standing.progress = Progress(taken={"a": 1000, "b": 500}, stored={"a": 900, "b": 500}, said=3, heard=2)
    line = line_of(standing)
    assert "4 of 9 faults" in line
    assert "1,500 samples taken, 1,400 accepted" in line
    assert "2 of 3 events" in line
    assert line.endswith("now: cut wan")


def test_a_line_comes_when_something_begins_and_then_now_and_then() -> None:
    said: list[str] = []
    now = [0.0]
    lines = Lines(said.append, lambda: now[0])
    for at, phase in ((0.0, "faults"), (5.0, "faults"), (10.0, "faults"), (11.0, "judging"), (12.0, "judging")):
        now[0] = at
        lines(Standing(phase))
    assert [line.partition(":")[0] for line in said] == ["faults", "faults", "judging"]


def plan_of(words: dict[str, str]) -> object:
    nodes = [f"torture-{number}" for number in range(int(words["--nodes"]))]
    targets = Targets(processes=nodes, links=["wan"], nodes=nodes, small_disks=nodes[:1], bus_events=["a", "b"])
    return make_plan(int(words["--seed"]), float(words["--minutes"]) * 60, int(words["--faults"]), targets)


@pytest.mark.parametrize("minutes", [3.0, 26.0, 0.1, 31 / 60, 7.123456789, 1_000.25])
def test_the_line_that_repeats_a_campaign_says_all_that_its_plan_depends_on(minutes: float) -> None:
    given = {"--seed": "7", "--faults": "200", "--minutes": repr(minutes), "--nodes": "5", "--rate": "400.0"}
    line = repeated(Wishes(7, 200, minutes * 60, 400.0, 5))
    words = line.removeprefix("farmiq torture ").split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    assert (told["--seed"], told["--faults"], told["--nodes"], told["--rate"]) == ("7", "200", "5", "400")
    assert plan_of(told) == plan_of(given)


def test_a_kind_on_request_is_a_part_of_the_line_that_repeats_it() -> None:
    also = on_request(["rabbit-lost", "disk-back"])
    assert also == {Kind.RABBIT_LOST, Kind.DISK_BACK}
    assert repeated(Wishes(7, 200, 60.0, 400.0, 5, also=also)).endswith(" --also disk-back --also rabbit-lost")
    with pytest.raises(BadUsage, match="kill"):
        on_request(["kill"])

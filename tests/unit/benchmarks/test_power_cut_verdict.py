"""What came back after a cut is compared with what was given and what was acknowledged, sample by sample."""

from power_cut.lives import cuts_of
from power_cut.verdict import judged, readings_of, total


def found(*readings: tuple[int, int, float], failed: str | None = None, goes_on: bool = True) -> dict[str, object]:
    return {"readings": list(readings), "failed": failed, "goes_on": goes_on}


def test_all_that_was_acknowledged_came_back() -> None:
    verdict = judged(2, [0], found(*readings_of(0), *readings_of(1)))
    assert (verdict.written, verdict.acknowledged, verdict.readable, verdict.lost) == (20, 10, 20, 0)


def test_an_acknowledged_sample_that_is_gone_is_lost_and_any_other_is_not() -> None:
    verdict = judged(2, [0], found(*readings_of(0)[1:]))
    assert (verdict.readable, verdict.lost) == (9, 1)


def test_a_copy_and_a_sample_that_nobody_wrote_are_seen() -> None:
    verdict = judged(1, [0], found(*readings_of(0), readings_of(0)[0], (1, 2, 3.0), (1, 2, 3.0)))
    assert (verdict.readable, verdict.twice, verdict.wrong, verdict.lost) == (10, 1, 2, 0)


def test_a_sample_with_another_value_is_wrong_and_lost() -> None:
    wall_ms, channel, value = readings_of(0)[0]
    verdict = judged(1, [0], found((wall_ms, channel, value + 1), *readings_of(0)[1:]))
    assert (verdict.wrong, verdict.lost) == (1, 1)


def test_a_store_that_cannot_be_read_and_one_that_does_not_go_on_are_counted() -> None:
    verdict = total(
        [
            judged(0, [], found(failed="open: OSError: no", goes_on=False)),
            judged(0, [], found(failed="go on: OSError: no", goes_on=False)),
            judged(0, [], found()),
        ]
    )
    assert (verdict.cuts, verdict.cuts_unreadable, verdict.cuts_that_end_it) == (3, 1, 2)


def test_a_seed_repeats_its_cuts_and_another_one_makes_others() -> None:
    assert cuts_of(1, 5) == cuts_of(1, 5)
    assert cuts_of(1, 5) != cuts_of(2, 5)
    assert [cut.moment for cut in cuts_of(1, 5)] == sorted(cut.moment for cut in cuts_of(1, 5))

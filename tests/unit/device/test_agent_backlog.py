from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.handover import ROWS_MAX, Position, Row
from farmiq.device.node_agent.backlog import Backlog


def rows(first: int, last: int) -> list[Row]:
    return [(0, number, 0, 2, float(number)) for number in range(first, last + 1)]


def numbers(backlog: Backlog) -> list[int]:
    offered = backlog.offer()
    return [row[1] for row in offered.rows] if offered else []


def test_samples_count_as_captured_only_when_they_are_stored() -> None:
    backlog = Backlog(100)
    backlog.add(rows(1, 3))
    offered = backlog.offer()
    assert offered is not None
    assert (backlog.captured, len(backlog)) == (0, 3)
    assert not backlog.stored(offered.number + 1)
    assert backlog.stored(offered.number)
    assert not backlog.stored(offered.number)
    assert (backlog.captured, len(backlog), backlog.not_captured) == (3, 0, 0)


def test_what_was_not_answered_is_offered_again_and_before_anything_newer() -> None:
    backlog = Backlog(100)
    backlog.add(rows(1, 3))
    assert numbers(backlog) == [1, 2, 3]
    backlog.add(rows(4, 5))
    assert numbers(backlog) == [1, 2, 3]


def test_what_the_forwarder_holds_already_is_not_offered_again_and_counts() -> None:
    backlog = Backlog(100)
    backlog.add(rows(1, 4))
    backlog.offer()
    backlog.resume_after(Position(2, 0))
    assert numbers(backlog) == [3, 4]
    assert backlog.captured == 2
    backlog.resume_after(Position(4, 0))
    assert numbers(backlog) == []
    assert (backlog.captured, len(backlog)) == (4, 0)


def test_a_full_backlog_gives_up_the_oldest_that_nobody_can_have_and_counts_them() -> None:
    backlog = Backlog(5)
    backlog.add(rows(1, 2))
    assert numbers(backlog) == [1, 2]
    assert backlog.add(rows(3, 8)) == 3
    assert backlog.not_captured == 3
    assert numbers(backlog) == [1, 2]
    backlog.resume_after(Position(2, 0))
    assert numbers(backlog) == [6, 7, 8]


def test_what_is_refused_for_ever_is_counted_and_does_not_block_the_rest() -> None:
    backlog = Backlog(100)
    backlog.add(rows(1, 3))
    backlog.offer()
    backlog.add(rows(4, 5))
    assert backlog.give_up() == 3
    assert numbers(backlog) == [4, 5]
    offered = backlog.offer()
    assert offered is not None
    assert (backlog.not_captured, offered.not_captured) == (3, 3)


def test_a_long_backlog_goes_in_several_messages() -> None:
    backlog = Backlog(ROWS_MAX * 3)
    backlog.add(rows(1, ROWS_MAX + 1))
    offered = backlog.offer()
    assert offered is not None
    assert len(offered.rows) == ROWS_MAX
    backlog.stored(offered.number)
    assert numbers(backlog) == [ROWS_MAX + 1]


@given(
    st.lists(st.tuples(st.sampled_from(["add", "offer", "answer", "lose the answer"]), st.integers(1, 7)), max_size=60)
)
def test_every_sample_is_captured_or_counted_or_still_waits(steps: list[tuple[str, int]]) -> None:
    """The forwarder stores what it is offered; now and then its answer is lost, and the greeting has to make up for it."""
    backlog, made, held = Backlog(10), 0, list[int]()
    for step, count in steps:
        if step == "add":
            backlog.add(rows(made + 1, made + count))
            made += count
            continue
        offered = backlog.offer()
        if offered is None or step == "offer":
            continue
        held += [row[1] for row in offered.rows]
        if step == "answer":
            backlog.stored(offered.number)
        else:
            backlog.resume_after(Position(held[-1], 0))
    assert held == sorted(set(held))
    assert backlog.captured == len(held)
    assert backlog.captured + backlog.not_captured + len(backlog) == made

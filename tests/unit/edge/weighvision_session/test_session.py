"""What the facts of a session add up to, in every order."""

from functools import reduce
from itertools import permutations
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farmiq.edge.weighvision_session.session import Picture, Result, Ruling, Session, seen
from support.weighing import BEGAN_AT, HEARD_AT, Weighing

ONE = Weighing(UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0300"))
SETTLED = settings(max_examples=200)


def stored(number: int) -> Session:
    return Session(pictures={ONE.media_id(number): Picture(stored_at=HEARD_AT)})


def inferred(number: int, confidence: float, generation: int = 0) -> Session:
    result = ONE.result(number, confidence, generation)
    return Session(
        pictures={ONE.media_id(number): Picture(has_result=True)},
        result=Result(result.id, generation, confidence, result.occurred_at),
    )


def together(*facts: Session) -> Session:
    return reduce(Session.join, facts, Session())


WHOLE = [
    seen(ONE.created(0)),
    seen(ONE.weight(10, 120.5)),
    seen(ONE.weight(40, 121.0)),
    seen(ONE.image(12, 1)),
    stored(1),
    stored(2),
    seen(ONE.finalized(120, 2)),
]


def test_every_order_of_a_sessions_events_ends_in_the_same_session() -> None:
    expected = together(*WHOLE)
    orders = list(permutations(WHOLE))
    assert len(orders) == 5040
    assert all(together(*order) == expected for order in orders)
    assert expected.is_complete
    assert (expected.status, expected.initial_weight_kg, expected.final_weight_kg) == ("finalized", 120.5, 121.0)
    assert (expected.image_count, expected.pictures_stored, len(expected.pictures)) == (2, 2, 2)


# Contradicting words too: two beginnings, three ends, an operator's, results of two models.
FACTS = [
    *WHOLE,
    seen(ONE.created(1, batch_id="batch-8", initial_weight_kg=119.0)),
    seen(ONE.weight(11, 120.6)),
    seen(ONE.finalized(130, 3, 120.9)),
    seen(ONE.cancelled(125, "the animal left")),
    seen(ONE.image(13, 1)),
    seen(ONE.image(14, 3)),
    inferred(1, 0.9),
    inferred(2, 0.94),
    inferred(2, 0.7, generation=1),
    Session(ruling=Ruling(HEARD_AT, UUID(int=7), "no camera", 1, 118.0)),
]


@SETTLED
@given(order=st.lists(st.sampled_from(FACTS), max_size=30), again=st.randoms(use_true_random=False))
def test_repeating_and_reordering_changes_nothing(order: list[Session], again: object) -> None:
    shuffled = order + order
    again.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives its own Random
    assert together(*shuffled) == together(*order)


@SETTLED
@given(
    some=st.lists(st.sampled_from(FACTS)), more=st.lists(st.sampled_from(FACTS)), rest=st.lists(st.sampled_from(FACTS))
)
def test_what_is_joined_first_makes_no_difference(
    some: list[Session], more: list[Session], rest: list[Session]
) -> None:
    one, two, three = together(*some), together(*more), together(*rest)
    assert one.join(two).join(three) == one.join(two.join(three)) == three.join(one).join(two)
    assert one.join(one) == one


def test_the_stations_times_decide_and_not_the_order_of_arrival() -> None:
    session = together(*FACTS)
    assert session.created is not None
    assert (session.created.at, session.created.batch_id) == (BEGAN_AT, "batch-7")
    assert (session.status, session.image_count, session.final_weight_kg) == ("finalized", 3, 120.9)
    assert session.initial_weight_kg == 120.5, "the first `created` gave none, and this is the first that was recorded"
    assert session.result is not None
    assert session.result.model_generation == 1, "the newer model speaks, although it is less sure"


@pytest.mark.parametrize(
    ("facts", "missing"),
    [
        ([], (True, True, True, 1)),
        ([seen(ONE.created(0))], (False, True, True, 1)),
        ([seen(ONE.created(0)), seen(ONE.weight(1, 1.0)), seen(ONE.finalized(2, 0))], (False, False, False, 1)),
        ([seen(ONE.finalized(2, 3)), stored(1)], (True, True, False, 2)),
        ([seen(ONE.image(1, 1))], (True, True, True, 1)),
        ([stored(1)], (True, True, True, 0)),
        (WHOLE, (False, False, False, 0)),
        ([*WHOLE, stored(3), stored(4)], (False, False, False, 0)),
    ],
)
def test_what_is_missing_is_known_at_any_time(facts: list[Session], missing: tuple[bool, bool, bool, int]) -> None:
    session = together(*facts)
    found = session.missing
    assert (found.created, found.weight, found.finalized, found.pictures) == missing
    assert session.is_complete == (not any(missing))
    assert session.is_awaited == any(missing)


def test_a_cancelled_session_has_no_weight_and_waits_for_nothing() -> None:
    session = together(seen(ONE.created(0)), seen(ONE.weight(1, 80.0)), seen(ONE.cancelled(2, "the animal left")))
    assert (session.status, session.final_weight_kg, session.is_awaited) == ("cancelled", None, False)
    assert session.is_settled
    assert not session.is_complete


def test_an_operators_word_stands_in_for_the_stations_and_gives_way_to_it() -> None:
    ruling = Session(ruling=Ruling(HEARD_AT, UUID(int=7), "the camera is broken", 1, 118.0))
    session = together(seen(ONE.created(0)), seen(ONE.weight(1, 80.0)), stored(1), ruling)
    assert (session.status, session.image_count, session.final_weight_kg) == ("finalized", 1, 118.0)
    assert not session.is_awaited
    late = session.join(seen(ONE.finalized(60, 3, 81.5)))
    assert (late.status, late.image_count, late.final_weight_kg) == ("finalized", 3, 81.5)
    assert late.missing.pictures == 2
    assert not late.is_awaited, "the operator has said not to wait"
    assert session.join(seen(ONE.finalized(60, 3))).final_weight_kg == 118.0, "the station gave none"


def test_a_session_is_settled_when_every_stored_picture_was_looked_at() -> None:
    session = together(*WHOLE, inferred(1, 0.9))
    assert not session.is_settled
    assert session.join(inferred(2, 0.5)).is_settled
    assert not together(*WHOLE[:-1], inferred(1, 0.9), inferred(2, 0.5)).is_settled, "nobody has ended it"

from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.weighvision_agent.drops import Held, PictureState, Waiting, to_make_room, too_many, too_old

EVENTS = st.lists(
    st.builds(Waiting, st.integers(), st.integers(0, 10**6), st.integers(0, 10**6), st.booleans()),
    unique_by=lambda one: one.number,
)


def picture(name: str, state: PictureState, captured_us: int = 0, *, is_of_session: bool = True) -> Held:
    return Held(name, state, captured_us, 100, is_of_session)


def test_the_beginning_and_the_end_of_sessions_go_last_and_the_oldest_first() -> None:
    queue = [Waiting(1, 10, 0, True), Waiting(2, 11, 0, False), Waiting(3, 12, 0, False), Waiting(4, 13, 0, True)]
    assert too_many(queue, 4) == []
    assert too_many(queue, 3) == [2]
    assert too_many(queue, 2) == [2, 3]
    assert too_many(queue, 1) == [2, 3, 1]


@given(EVENTS, st.integers(0, 50))
def test_at_most_the_limit_stays_and_nothing_critical_goes_before_the_rest(queue: list[Waiting], limit: int) -> None:
    gone = set(too_many(queue, limit))
    assert len(queue) - len(gone) == min(len(queue), limit)
    critical_gone = [one for one in queue if one.is_critical and one.number in gone]
    others_kept = [one for one in queue if not one.is_critical and one.number not in gone]
    assert not (critical_gone and others_kept)
    for kind in (True, False):
        kept = [one.ts_us for one in queue if one.is_critical == kind and one.number not in gone]
        dropped = [one.ts_us for one in queue if one.is_critical == kind and one.number in gone]
        assert not kept or not dropped or max(dropped) <= min(kept)


@given(EVENTS, st.integers(0, 10**6))
def test_only_what_is_not_critical_grows_too_old(queue: list[Waiting], oldest_us: int) -> None:
    gone = set(too_old(queue, oldest_us))
    assert gone == {one.number for one in queue if one.since_us < oldest_us and not one.is_critical}


def test_pictures_that_the_edge_has_go_first_and_those_of_sessions_last() -> None:
    held = [
        picture("session, new", "waiting", 5),
        picture("session, old", "waiting", 1),
        picture("scheduled", "presigned", 9, is_of_session=False),
        picture("uploaded", "uploaded", 3),
        picture("failed", "failed", 3),
        picture("acknowledged", "acked", 4),
        Held("verified", "acked", 5, 100, True, is_verified=True),
    ]
    order = [one.picture_id for one in to_make_room(held, 700)]
    assert order == ["verified", "failed", "uploaded", "acknowledged", "scheduled", "session, old", "session, new"]
    assert [one.picture_id for one in to_make_room(held, 150)] == ["verified", "failed"]
    assert [one.is_loss for one in to_make_room(held, 700)] == [False, False, False, False, True, True, True]
    assert to_make_room(held, 0) == []
    assert [one.picture_id for one in to_make_room(held, 701)] == ["verified"], "nothing is lost in vain"

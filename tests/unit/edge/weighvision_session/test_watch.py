"""When a session is late, and when the cloud is told: decided from what came when, with a clock that is handed in."""

from datetime import datetime, timedelta
from functools import reduce

import msgspec
import pytest

from farmiq.edge.weighvision_session.ending import Told, digest_of
from farmiq.edge.weighvision_session.session import Picture, Result, Session, seen
from farmiq.edge.weighvision_session.watch import LOOK_AGAIN, Heard, Judgement, Patience, judge
from support.weighing import HEARD_AT, Weighing

ONE = Weighing()
PATIENCE = Patience(incomplete=timedelta(minutes=10), settle=timedelta(seconds=15), unbound=timedelta(hours=72))
CREATED, WEIGHT, FINALIZED = seen(ONE.created()), seen(ONE.weight(10, 120.5)), seen(ONE.finalized(120, 1))
STORED = Session(pictures={ONE.media_id(1): Picture(stored_at=HEARD_AT)})
RESULT = ONE.result(1, 0.94)
INFERRED = Session(
    pictures={ONE.media_id(1): Picture(has_result=True)}, result=Result(RESULT.id, 0, 0.94, RESULT.occurred_at)
)


def after(minutes: float) -> datetime:
    return HEARD_AT + timedelta(minutes=minutes)


def judged(
    *facts: Session,
    minutes: float,
    last: float = 0.0,
    ended: float | None = None,
    incomplete_since: datetime | None = None,
    told: Told | None = None,
) -> Judgement:
    session = reduce(Session.join, facts, Session())
    heard = Heard(HEARD_AT, after(last), None if ended is None else after(ended))
    return judge(session, heard, incomplete_since, told, after(minutes), PATIENCE)


def test_a_session_without_pictures_is_incomplete_ten_minutes_after_it_was_first_heard_of() -> None:
    early = judged(CREATED, WEIGHT, minutes=9.9, last=9)
    assert (early.incomplete_since, early.look_at) == (None, after(10))
    late = judged(CREATED, WEIGHT, minutes=25, last=24)
    assert (late.incomplete_since, late.look_at) == (after(10), None), "words alone do not put it off"


def test_pictures_that_are_fewer_than_were_counted_are_waited_for_from_the_end() -> None:
    facts = (CREATED, WEIGHT, STORED, seen(ONE.finalized(120, 3)))
    told = Told(ONE.finalized(120, 3).event_id, digest_of(reduce(Session.join, facts, Session())) or "", 1)
    assert judged(*facts, minutes=13.9, last=13, ended=4, told=told).incomplete_since is None
    assert judged(*facts, minutes=14, last=13, ended=4, told=told).incomplete_since == after(14)


def test_a_session_that_nobody_ends_is_incomplete_ten_minutes_after_the_last_word() -> None:
    assert judged(CREATED, WEIGHT, STORED, minutes=13, last=4).look_at == after(14)
    assert judged(CREATED, WEIGHT, STORED, minutes=14, last=4).incomplete_since == after(14)


def test_pictures_of_which_nobody_has_spoken_wait_as_long_as_a_station_keeps_its_words() -> None:
    """MQTT is away and HTTP is not: the words are on the station's disk."""
    early = judged(STORED, minutes=60, last=4)
    assert (early.incomplete_since, early.look_at) == (None, after(60) + LOOK_AGAIN), (
        "no time to come lies further ahead"
    )
    shortly = judged(STORED, minutes=4 + 72 * 60 - 1, last=4)
    assert (shortly.incomplete_since, shortly.look_at) == (None, after(4) + PATIENCE.unbound)
    late = judged(STORED, minutes=4 + 72 * 60, last=4)
    assert late.incomplete_since == after(4) + PATIENCE.unbound
    announced = judged(STORED, seen(ONE.image(5, 1)), minutes=14, last=4)
    assert announced.incomplete_since == after(14), "one word, and the ten minutes count"


def test_an_incomplete_session_heals_when_what_was_missing_comes() -> None:
    healed = judged(CREATED, WEIGHT, STORED, FINALIZED, minutes=60, last=60, ended=1, incomplete_since=after(10))
    assert healed.incomplete_since is None
    still = judged(CREATED, WEIGHT, FINALIZED, minutes=60, last=60, ended=1, incomplete_since=after(10))
    assert still.incomplete_since == after(10), "since when, and not since when somebody looked"


def test_the_end_is_told_once_pictures_and_inference_are_in() -> None:
    waiting = judged(CREATED, WEIGHT, STORED, FINALIZED, minutes=1, ended=1)
    assert (waiting.is_to_be_told, waiting.look_at) == (False, after(1) + PATIENCE.settle)
    assert judged(CREATED, WEIGHT, STORED, FINALIZED, INFERRED, minutes=1, ended=1).is_to_be_told
    assert not judged(CREATED, WEIGHT, STORED, INFERRED, minutes=1).is_to_be_told


def test_the_end_is_told_without_them_when_they_do_not_come_soon() -> None:
    told = judged(CREATED, WEIGHT, FINALIZED, minutes=1.25, ended=1)
    assert told.is_to_be_told
    assert told.look_at == after(10), "it is not complete, and that is another matter"


def test_what_the_cloud_knows_is_not_told_again_and_a_change_is_told_at_once() -> None:
    session = reduce(Session.join, (CREATED, WEIGHT, STORED, FINALIZED), Session())
    told = Told(ONE.finalized(120, 1).event_id, digest_of(session) or "", 1)
    facts = (CREATED, WEIGHT, STORED, FINALIZED)
    assert judged(*facts, minutes=2, ended=1, told=told) == Judgement(None, False, None)
    assert judged(*facts, INFERRED, minutes=2, ended=1, told=told).is_to_be_told
    assert not judged(*facts, seen(ONE.image(5, 2)), minutes=2, ended=1, told=told).is_to_be_told


def test_a_cancelled_session_is_told_at_once_and_never_late() -> None:
    cancelled = judged(CREATED, seen(ONE.cancelled(5)), minutes=60, ended=0, incomplete_since=after(10))
    assert cancelled == Judgement(None, True, None)


def test_the_digest_is_of_what_is_told_and_of_nothing_else() -> None:
    session = reduce(Session.join, (CREATED, WEIGHT, STORED, FINALIZED), Session())
    assert digest_of(session) == digest_of(session.join(seen(ONE.image(5, 2))))
    for changed in (INFERRED, seen(ONE.weight(200, 125.0)), seen(ONE.finalized(130, 2)), seen(ONE.cancelled(200))):
        assert digest_of(session.join(changed)) != digest_of(session), msgspec.json.encode(changed)
    assert digest_of(CREATED) is None


@pytest.mark.parametrize("days", [1, 365])
def test_what_a_clock_ahead_has_heard_is_over_when_the_clock_is_set_right(days: int) -> None:
    """promise-device-edge 7: the end would be told, and what is missing noticed, when the clock has come there."""
    minutes = -days * 24 * 60.0
    assert judged(CREATED, WEIGHT, STORED, FINALIZED, minutes=minutes, last=1, ended=1).is_to_be_told
    unfinished = judged(CREATED, WEIGHT, minutes=minutes, last=1)
    assert unfinished.incomplete_since is not None
    assert unfinished.incomplete_since <= after(minutes)
    assert unfinished.look_at is None

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from farmiq.contracts.ack import DeviceAck
from farmiq.device.doubts import PERSISTS_SECONDS
from farmiq.device.weighvision_agent.acks import Epochs, Speaker
from farmiq.device.weighvision_agent.replay import (
    IN_FLIGHT_MAX,
    PUT_OFF_SECONDS_MAX,
    OnTheWay,
    PutOffs,
    Throttle,
    jitter_seconds,
    order_us,
)

FIRST, SECOND = UUID(int=1), UUID(int=2)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Sent(NamedTuple):
    number: int


@given(st.lists(st.integers(0, 10**12), min_size=1))
def test_a_clock_that_is_set_back_does_not_turn_a_session_round(times: list[int]) -> None:
    last, order = None, []
    for ts_us in times:
        last = order_us(ts_us, last)
        order.append(last)
    assert order == sorted(order)
    assert all(place >= ts_us for place, ts_us in zip(order, times, strict=True))
    assert order[0] == times[0]


@given(st.lists(st.floats(0, 0.3), min_size=2, max_size=200), st.floats(1, 100))
def test_no_second_has_more_messages_than_allowed(gaps: list[float], per_second: float) -> None:
    throttle, now, sent = Throttle(per_second), 0.0, []
    for gap in gaps:
        now += gap
        now += throttle.spend(now)
        sent.append(now)
    allowed = per_second + 1
    assert all(sum(at <= one < at + 1 for one in sent) <= allowed + 1e-6 for at in sent)


def test_the_jitter_is_at_most_a_fifth_of_a_second() -> None:
    rng = random.Random(3)
    pauses = [jitter_seconds(rng) for _ in range(1000)]
    assert 0 <= min(pauses) < 0.01
    assert 0.19 < max(pauses) <= 0.2


def test_what_is_on_its_way_is_not_sent_again_until_the_edge_has_been_silent() -> None:
    way = OnTheWay(resend_seconds=15, now=0.0)
    events = [Sent(1), Sent(2), Sent(3)]
    way.sent(1, 0.0)
    assert way.not_sent(events) == [Sent(2), Sent(3)]
    assert not way.is_silent_too_long(15.0)
    assert way.is_silent_too_long(15.1)
    way.ask_again(15.1)
    assert way.not_sent(events) == events
    way.sent(1, 16.0)
    assert not way.is_silent_too_long(45.0), "more patience each time"
    assert way.is_silent_too_long(46.1)


def test_an_answer_is_progress_and_resets_the_patience() -> None:
    way = OnTheWay(resend_seconds=15, now=0.0)
    way.sent(1, 0.0)
    way.sent(2, 0.0)
    way.ask_again(20.0)
    way.sent(1, 21.0)
    way.sent(2, 21.0)
    way.settled([1], 30.0)
    assert not way.is_silent_too_long(45.0)
    assert way.is_silent_too_long(45.1)
    way.settled([2], 46.0)
    assert not way.is_silent_too_long(10_000.0), "nothing is waited for"


def test_only_so_much_is_on_its_way() -> None:
    way = OnTheWay(15, 0.0)
    for number in range(IN_FLIGHT_MAX):
        assert way.has_room
        way.sent(number, 0.0)
    assert not way.has_room


class Hearing:
    def __init__(self, epoch: UUID | None) -> None:
        self.now = 0.0
        self._epochs = Epochs(epoch, lambda: self.now)

    def hear(self, epoch: UUID, *, commits: int = 0, at: datetime = NOON) -> Speaker:
        return self._epochs.hear(DeviceAck(epoch=epoch, ts=at, commits=commits or UNSET))


def test_a_new_database_is_believed_and_a_dead_one_stays_dead_whatever_its_clock_said() -> None:
    hearing = Hearing(None)
    assert hearing.hear(FIRST, at=NOON + timedelta(days=999)) is Speaker.SAME
    assert hearing.hear(SECOND, at=NOON - timedelta(days=1)) is Speaker.NEW
    assert hearing.hear(FIRST, at=NOON + timedelta(days=1000)) is Speaker.DEAD, "delayed on its way"
    hearing.now += PERSISTS_SECONDS
    assert hearing.hear(SECOND) is Speaker.SAME
    assert hearing.hear(FIRST) is Speaker.DEAD
    hearing.now += PERSISTS_SECONDS
    assert hearing.hear(FIRST) is Speaker.NEW, "nothing else speaks: it was set back"
    assert Hearing(FIRST).hear(SECOND) is Speaker.NEW


def test_a_database_that_counts_from_a_lower_number_for_a_minute_was_set_back() -> None:
    """promise-device-edge 4, for stations: they have no marks that could go back."""
    hearing = Hearing(None)
    assert [hearing.hear(FIRST, commits=count) for count in (1000, 998, 1001, 400)] == [Speaker.SAME] * 4
    hearing.now += PERSISTS_SECONDS / 2
    assert hearing.hear(FIRST, commits=1002) is Speaker.SAME, "the other one was only late"
    assert hearing.hear(FIRST, commits=410) is Speaker.SAME
    hearing.now += PERSISTS_SECONDS
    assert hearing.hear(FIRST, commits=420) is Speaker.WENT_BACK
    assert [hearing.hear(FIRST, commits=count) for count in (430, 440)] == [Speaker.SAME] * 2


def test_what_is_put_off_lets_the_others_pass_longer_each_time_and_for_no_more_than_a_quarter_of_an_hour() -> None:
    put_offs, now = PutOffs(), 1000.0
    waits = []
    for _ in range(8):
        put_offs.add({7: "not_storable"}, now)
        assert put_offs.not_due(now) == [7]
        waits.append(next(seconds for seconds in range(1, 2000) if put_offs.not_due(now + seconds) == []))
        now += waits[-1]
    assert waits[:5] == [60, 120, 240, 480, 900]
    assert set(waits[5:]) == {PUT_OFF_SECONDS_MAX}
    put_offs.forget([7, 8])
    assert put_offs.not_due(now) == []


def test_what_waits_for_the_register_goes_on_at_once_when_the_edge_takes_something() -> None:
    put_offs = PutOffs()
    put_offs.add({1: "not_provisioned", 2: "not_storable"}, 0.0)
    assert put_offs.not_for_any_of({"not_provisioned"}) == [2], "a later loss does not wait behind this one"
    put_offs.end_of({"not_provisioned"})
    assert put_offs.not_due(1.0) == [2]
    put_offs.end()
    assert put_offs.not_due(1.0) == []

from collections.abc import Callable
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.handover import ROWS_MAX, NotCaptured, Position, Row, Samples
from farmiq.device.node_agent.backlog import Backlog


def rows(first: int, last: int) -> list[Row]:
    return [(number * 10, number, 0, 2, float(number)) for number in range(first, last + 1)]


def backlog_of(samples_max: int) -> Backlog:
    """Its losses are called 1, 2, 3, ..."""
    ids = iter(range(1, 1000))
    return Backlog(samples_max, lambda: UUID(int=next(ids)))


def numbers(backlog: Backlog) -> list[int]:
    offered = backlog.offer()
    return [row[1] for row in offered.rows] if isinstance(offered, Samples) else []


def loss(backlog: Backlog) -> tuple[int, int, int, int] | None:
    """Its id, count, and the wall times of its ends."""
    offered = backlog.offer()
    if not isinstance(offered, NotCaptured):
        return None
    return offered.loss_id.int, offered.count, offered.first_wall_us, offered.last_wall_us


def answer(backlog: Backlog) -> None:
    offered = backlog.offer()
    assert offered is not None
    assert backlog.stored(offered.number)


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
    backlog = backlog_of(5)
    backlog.add(rows(1, 2))
    assert numbers(backlog) == [1, 2]
    assert backlog.add(rows(3, 8)) == 3
    assert (backlog.not_captured, backlog.untold) == (3, 3)
    assert numbers(backlog) == [1, 2]
    backlog.resume_after(Position(2, 0))
    assert loss(backlog) == (1, 3, 30, 50)
    answer(backlog)
    assert numbers(backlog) == [6, 7, 8]


def test_a_loss_is_told_before_the_samples_that_follow_it() -> None:
    backlog = backlog_of(2)
    backlog.add(rows(1, 5))
    assert loss(backlog) == (1, 3, 10, 30)
    answer(backlog)
    assert numbers(backlog) == [4, 5]
    answer(backlog)
    assert backlog.is_told
    assert (backlog.captured, backlog.not_captured) == (2, 3)


def test_a_loss_grows_until_it_is_offered_and_then_never_again() -> None:
    backlog = backlog_of(2)
    backlog.add(rows(1, 4))
    backlog.add(rows(5, 5))
    assert loss(backlog) == (1, 3, 10, 30)
    backlog.add(rows(6, 8))
    assert loss(backlog) == (1, 3, 10, 30)
    backlog.resume_after(Position(8, 0))
    assert loss(backlog) == (1, 3, 10, 30)
    answer(backlog)
    assert loss(backlog) == (2, 3, 40, 60)
    answer(backlog)
    assert numbers(backlog) == [7, 8]


def test_a_loss_spans_the_wall_times_of_its_samples_also_when_the_clock_jumped_back() -> None:
    backlog = backlog_of(1)
    backlog.add([(500, 1, 0, 0, 1.0), (100, 2, 0, 2, 1.0), (300, 3, 0, 2, 1.0), (400, 4, 0, 2, 1.0)])
    assert loss(backlog) == (1, 3, 100, 500)


def test_what_is_refused_for_ever_is_declared_lost_and_does_not_block_the_rest() -> None:
    backlog = backlog_of(100)
    backlog.add(rows(1, 3))
    backlog.offer()
    backlog.add(rows(4, 5))
    assert backlog.give_up() == 3
    assert backlog.not_captured == 3
    assert loss(backlog) == (1, 3, 10, 30)
    answer(backlog)
    assert numbers(backlog) == [4, 5]


def test_a_loss_that_is_refused_for_ever_stays_counted_and_does_not_block_the_samples() -> None:
    backlog = backlog_of(2)
    backlog.add(rows(1, 3))
    assert loss(backlog) == (1, 1, 10, 10)
    assert backlog.give_up() == 1
    assert (backlog.not_captured, backlog.untold) == (1, 0)
    assert numbers(backlog) == [2, 3]


def test_devices_that_were_read_in_the_same_microsecond_are_set_apart() -> None:
    backlog = Backlog(100)
    backlog.add([(0, 700, 3, 2, 1.0), (0, 700, 4, 2, 2.0)])
    backlog.add([(0, 700, 0, 2, 3.0), (0, 700, 1, 2, 4.0)])
    backlog.add([(0, 699, 3, 2, 5.0)])
    backlog.add([(0, 705, 0, 2, 6.0)])
    offered = backlog.offer()
    assert isinstance(offered, Samples)
    assert [(row[1], row[2]) for row in offered.rows] == [(700, 3), (700, 4), (701, 0), (701, 1), (702, 3), (705, 0)]
    assert [row[4] for row in offered.rows] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_read_in_which_every_sensor_failed_adds_nothing() -> None:
    backlog = Backlog(100)
    assert backlog.add([]) == 0
    assert backlog.offer() is None
    assert not backlog.news.is_set()


def test_a_long_backlog_goes_in_several_messages() -> None:
    backlog = Backlog(ROWS_MAX * 3)
    backlog.add(rows(1, ROWS_MAX + 1))
    offered = backlog.offer()
    assert isinstance(offered, Samples)
    assert len(offered.rows) == ROWS_MAX
    backlog.stored(offered.number)
    assert numbers(backlog) == [ROWS_MAX + 1]


class Forwarder:
    """Stores each sample and each loss once, by its place or its id; now and then its answer gets lost."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self.losses: dict[UUID, int] = {}

    def take(self, message: Samples | NotCaptured) -> None:
        if isinstance(message, NotCaptured):
            assert self.losses.setdefault(message.loss_id, message.count) == message.count
            return
        self.samples += [row[1] for row in message.rows if not self.samples or row[1] > self.samples[-1]]

    @property
    def last(self) -> Position | None:
        return Position(self.samples[-1], 0) if self.samples else None


STEPS: dict[str, Callable[[Backlog, Forwarder], None]] = {}


def step(name: str) -> Callable[[Callable[[Backlog, Forwarder], None]], Callable[[Backlog, Forwarder], None]]:
    def keep(action: Callable[[Backlog, Forwarder], None]) -> Callable[[Backlog, Forwarder], None]:
        STEPS[name] = action
        return action

    return keep


@step("offer, and the connection breaks before it arrives")
def _(backlog: Backlog, forwarder: Forwarder) -> None:
    backlog.offer()
    backlog.resume_after(forwarder.last)


@step("offer, and it is stored and answered")
def _(backlog: Backlog, forwarder: Forwarder) -> None:
    if (offered := backlog.offer()) is not None:
        forwarder.take(offered)
        assert backlog.stored(offered.number)


@step("offer, and it is stored and the answer is lost")
def _(backlog: Backlog, forwarder: Forwarder) -> None:
    if (offered := backlog.offer()) is not None:
        forwarder.take(offered)
        backlog.resume_after(forwarder.last)


@step("offer, and samples are refused for ever")
def _(backlog: Backlog, forwarder: Forwarder) -> None:
    if isinstance(backlog.offer(), Samples):
        backlog.give_up()


@given(st.lists(st.one_of(st.integers(1, 7), st.sampled_from(sorted(STEPS))), max_size=60))
def test_every_sample_is_captured_or_declared_lost_or_still_waits_and_each_counts_once(steps: list[int | str]) -> None:
    backlog, forwarder, made = Backlog(10), Forwarder(), 0
    for action in steps:
        if isinstance(action, int):
            backlog.add(rows(made + 1, made + action))
            made += action
        else:
            STEPS[action](backlog, forwarder)
        assert backlog.captured + backlog.not_captured + len(backlog) == backlog.added == made
    while not backlog.is_told:
        STEPS["offer, and it is stored and answered"](backlog, forwarder)
    assert forwarder.samples == sorted(set(forwarder.samples))
    assert len(forwarder.samples) == backlog.captured
    assert sum(forwarder.losses.values()) == backlog.not_captured
    assert backlog.captured + backlog.not_captured == made

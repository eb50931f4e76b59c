"""Who is charged when the cloud refuses, against a cloud that refuses what it is told to."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.edge.sync_forwarder.answers import Refused
from farmiq.edge.sync_forwarder.envelopes import Sealed
from farmiq.edge.sync_forwarder.requests import LONE_FAILURES_MAX, Requests, halves
from farmiq.outbox.event import ClaimedEvent
from farmiq.outbox.verdicts import Failure

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BROKEN = Refused(Failure("HTTP_500", "boom"))
TOO_LARGE = Refused(Failure("HTTP_413", "too much"))
ATTEMPTS_MAX = 10

Judge = Callable[[Sequence[int]], Refused | None]


def item(number: int, size: int = 10, attempt_count: int = 0) -> Sealed:
    event = ClaimedEvent(
        id=UUID(int=number),
        claim_token=1,
        attempt_count=attempt_count,
        tenant_id="demo",
        farm_id=None,
        barn_id=None,
        device_id=None,
        session_id=None,
        event_type="test.event",
        occurred_at=NOON,
        is_time_known=True,
        trace_id=None,
        priority=0,
        is_suspect=False,
        payload=msgspec.Raw(b"{}"),
    )
    return Sealed(event, b"x" * size)


def drain(items: Sequence[Sealed], judge: Judge) -> tuple[list[int], list[int], list[list[int]]]:
    """Who was answered, who was charged, and every request that it took."""
    requests = Requests(items, bytes_max=10**9, attempts_max=ATTEMPTS_MAX)
    answered: list[int] = []
    charged: list[int] = []
    sent: list[list[int]] = []
    while (request := requests.take()) is not None:
        numbers = [one.event.id.int for one in request]
        sent.append(numbers)
        refusal = judge(numbers)
        if refusal is None:
            requests.answered()
            answered += numbers
        else:
            charged += [one.event.id.int for one in requests.refused(request, refusal)]
    return answered, charged, sent


def poisoned_by(poison: set[int]) -> Judge:
    return lambda numbers: BROKEN if poison & set(numbers) else None


@given(count=st.integers(1, 120), data=st.data())
def test_one_poison_event_is_charged_alone_and_its_neighbours_are_delivered(count: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, count - 1))
    answered, charged, sent = drain([item(number) for number in range(count)], poisoned_by({bad}))
    assert charged == [bad]
    assert answered == [number for number in range(count) if number != bad]
    assert len(sent) <= 2 * count.bit_length() + 1


@given(count=st.integers(1, 60), poison=st.sets(st.integers(0, 59), max_size=60))
def test_everybody_is_answered_or_charged_exactly_once(count: int, poison: set[int]) -> None:
    answered, charged, sent = drain([item(number) for number in range(count)], poisoned_by(poison))
    assert sorted(answered + charged) == list(range(count))
    assert not set(answered) & poison
    assert len(sent) <= 2 * count


@given(attempts=st.lists(st.integers(0, ATTEMPTS_MAX - 1), min_size=1, max_size=60), poison=st.sets(st.integers(0, 59)))
def test_whoever_has_one_attempt_left_is_charged_only_alone(attempts: list[int], poison: set[int]) -> None:
    items = [item(number, attempt_count=attempt_count) for number, attempt_count in enumerate(attempts)]
    _, charged, sent = drain(items, poisoned_by(poison))
    alone = {numbers[0] for numbers in sent if len(numbers) == 1}
    given_up = {number for number in charged if attempts[number] + 1 >= ATTEMPTS_MAX}
    assert given_up <= alone
    assert given_up <= poison


@pytest.mark.parametrize("count", [10, 100, 1000, 5000])
def test_a_cloud_that_refuses_everything_is_not_asked_about_every_event(count: int) -> None:
    answered, charged, sent = drain([item(number) for number in range(count)], lambda _numbers: BROKEN)
    assert (answered, sorted(charged)) == ([], list(range(count)))
    assert len(sent) <= 2 * count.bit_length() + 2 * LONE_FAILURES_MAX


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=60), bytes_max=st.integers(1, 300))
def test_what_is_too_large_is_cut_until_it_fits(sizes: list[int], bytes_max: int) -> None:
    items = [item(number, size) for number, size in enumerate(sizes)]
    answered, charged, _ = drain(
        items, lambda numbers: TOO_LARGE if sum(sizes[number] for number in numbers) > bytes_max else None
    )
    assert answered == [number for number, size in enumerate(sizes) if size <= bytes_max]
    assert charged == [number for number, size in enumerate(sizes) if size > bytes_max]


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=50))
def test_halves_are_in_order_and_neither_is_empty(sizes: list[int]) -> None:
    items = [item(number, size) for number, size in enumerate(sizes)]
    first, second = halves(items)
    assert [*first, *second] == items
    assert first
    assert second


def test_what_is_left_is_told_in_order() -> None:
    requests = Requests([item(number) for number in range(5)], bytes_max=25, attempts_max=ATTEMPTS_MAX)
    first = requests.take()
    assert first is not None
    assert [one.event.id.int for one in first] == [0, 1]
    assert requests.refused(first, BROKEN) == []
    assert [one.event.id.int for one in requests.left] == [0, 1, 2, 3, 4]

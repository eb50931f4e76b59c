import asyncio

import pytest

from farmiq.kit.clock import Clock
from farmiq.kit.rested import REST_FACTOR, Rested
from support.waiting import eventually


class Hands(Clock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def monotonic(self) -> float:
        return self.at


class Oracle:
    def __init__(self, clock: Hands, took_seconds: float = 0.0) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None
        self._clock = clock
        self._took_seconds = took_seconds

    async def __call__(self) -> int:
        self.asked += 1
        asked = self.asked
        await self.may_answer.wait()
        self._clock.at += self._took_seconds
        if self.error:
            raise self.error
        return asked


async def test_an_answer_rests_and_is_then_asked_for_again() -> None:
    clock = Hands()
    oracle = Oracle(clock)
    rested = Rested(oracle, clock, rest_seconds=5)
    assert [await rested.get() for _ in range(3)] == [1, 1, 1]
    clock.at += 4.9
    assert await rested.get() == 1
    clock.at += 0.1
    assert await rested.get() == 2


async def test_what_fails_after_long_is_asked_again_soon() -> None:
    clock = Hands()
    oracle = Oracle(clock, took_seconds=5)
    oracle.error = TimeoutError("hangs")
    rested = Rested(oracle, clock, rest_seconds=1)
    with pytest.raises(TimeoutError):
        await rested.get()
    oracle.error = None
    clock.at += 5
    assert await rested.get() == 2


async def test_what_takes_long_rests_as_long_as_it_is_told_to() -> None:
    clock = Hands()
    oracle = Oracle(clock, took_seconds=5)
    rested = Rested(oracle, clock, rest_seconds=1, rest_factor=0)
    await rested.get()
    clock.at += 1
    assert await rested.get() == 2


async def test_what_takes_long_rests_long() -> None:
    clock = Hands()
    oracle = Oracle(clock, took_seconds=2)
    rested = Rested(oracle, clock, rest_seconds=1)
    await rested.get()
    clock.at += 2 * REST_FACTOR - 0.1
    assert await rested.get() == 1
    clock.at += 0.1
    assert await rested.get() == 2


async def test_many_callers_ask_once() -> None:
    clock = Hands()
    oracle = Oracle(clock)
    rested = Rested(oracle, clock, rest_seconds=5)
    assert await asyncio.gather(*(rested.get() for _ in range(50))) == [1] * 50
    assert oracle.asked == 1


async def test_nobody_waits_for_a_slow_answer_when_there_is_an_old_one() -> None:
    clock = Hands()
    oracle = Oracle(clock)
    rested = Rested(oracle, clock, rest_seconds=5, patience_seconds=0.01)
    await rested.get()
    clock.at += 5
    oracle.may_answer.clear()
    assert await rested.get() == 1
    oracle.may_answer.set()

    async def is_new() -> bool:
        return rested.last == 2

    await eventually(is_new)
    assert await rested.get() == 2


async def test_a_caller_who_gives_up_does_not_take_the_answer_from_the_others() -> None:
    clock = Hands()
    oracle = Oracle(clock)
    oracle.may_answer.clear()
    rested = Rested(oracle, clock, rest_seconds=5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(rested.get(), 0.01)
    oracle.may_answer.set()
    assert await rested.get() == 1


async def test_a_failure_is_told_until_it_is_over_and_what_was_known_before_can_still_be_seen() -> None:
    clock = Hands()
    oracle = Oracle(clock)
    rested = Rested(oracle, clock, rest_seconds=5)
    await rested.get()
    oracle.error = ConnectionError("away")
    clock.at += 5
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await rested.get()
    assert (oracle.asked, rested.last) == (2, 1)
    oracle.error = None
    clock.at += 5
    assert await rested.get() == 3

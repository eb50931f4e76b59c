import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2.5
"""Deadlines are written for a machine that is not busy. A longer one costs only a test that fails anyway."""

PAUSE_SECONDS = 0.02
PAUSE_SECONDS_MAX = 0.5


def wait_for(condition: Callable[[], T], seconds: float = 20.0, what: str = "the condition") -> T:
    """Returns the first true answer of `condition`, or fails when none came in time."""
    deadline, asked_at = time.monotonic() + PATIENCE * seconds, time.monotonic()
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not become true within {PATIENCE * seconds} s")
        time.sleep(_pause_seconds(asked_at))
        asked_at = time.monotonic()
    return answer


async def eventually(condition: Callable[[], Awaitable[T]], seconds: float = 20.0, what: str = "the condition") -> T:
    """The same for a condition that has to be awaited."""
    deadline, asked_at = time.monotonic() + PATIENCE * seconds, time.monotonic()
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not become true within {PATIENCE * seconds} s")
        await asyncio.sleep(_pause_seconds(asked_at))
        asked_at = time.monotonic()
    return answer


def _pause_seconds(asked_at: float) -> float:
    """A condition that takes long to evaluate is evaluated less often: others need the processor for what it waits for."""
    return min(max(PAUSE_SECONDS, 2 * (time.monotonic() - asked_at)), PAUSE_SECONDS_MAX)


def run_apart(coroutine: Callable[[], Awaitable[T]]) -> T:
    """Runs a coroutine to its end from ordinary code, whether or not a loop is running in this thread."""

    async def awaited() -> T:
        return await coroutine()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(awaited())).result()

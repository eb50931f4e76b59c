import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2.5
"""Deadlines are written for a machine that is not busy. A longer one costs only a test that fails anyway."""


def wait_for(condition: Callable[[], T], seconds: float = 20.0, what: str = "the condition") -> T:
    """Returns the first true answer of `condition`, or fails when none came in time."""
    deadline = time.monotonic() + PATIENCE * seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not become true within {PATIENCE * seconds} s")
        time.sleep(0.02)
    return answer


async def eventually(condition: Callable[[], Awaitable[T]], seconds: float = 20.0, what: str = "the condition") -> T:
    """The same for a condition that has to be awaited."""
    deadline = time.monotonic() + PATIENCE * seconds
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not become true within {PATIENCE * seconds} s")
        await asyncio.sleep(0.02)
    return answer


def run_apart(coroutine: Callable[[], Awaitable[T]]) -> T:
    """Runs a coroutine to its end from ordinary code, whether or not a loop is running in this thread."""

    async def awaited() -> T:
        return await coroutine()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(awaited())).result()

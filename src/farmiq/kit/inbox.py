"""What has come in and nobody has taken yet, taken in micro-batches.

The taker is woken when a batch is worth waking for, not once a message. Where messages come from, and what bounds their
number, is the business of `mqtt` and `amqp`.
"""

import asyncio
import contextlib
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._wanted = 1
        self._gathered = asyncio.Event()
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._error: Exception | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        self._items.append(item)
        if len(self._items) >= self._wanted:
            self._gathered.set()

    def clear(self) -> None:
        self._items.clear()

    def close(self, error: Exception | None = None) -> None:
        """From now on `take` gives nothing, or raises `error`."""
        self._is_closed = True
        self._error = error
        self._gathered.set()

    async def take(self, items_max: int, seconds_max: float) -> list[T]:
        """Wait for one, then up to `seconds_max` for more. Empty only when closed.

        Cancelling this loses nothing: items are taken in one step at the end.
        """
        async with self._turn:
            while not self._is_closed:
                await self._gather(1, None)
                await self._gather(items_max, seconds_max)
                if self._items and not self._is_closed:
                    return [self._items.popleft() for _ in range(min(items_max, len(self._items)))]
        if self._error is not None:
            raise self._error
        return []

    async def _gather(self, count: int, seconds_max: float | None) -> None:
        self._wanted = count
        self._gathered.clear()
        if len(self._items) < count and not self._is_closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds_max):
                    await self._gathered.wait()

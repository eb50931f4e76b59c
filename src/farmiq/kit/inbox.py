"""What has come in and nobody has taken yet, taken in micro-batches.

The taker is woken when a batch is worth waking for, not once a message. Where messages come from, and what bounds their
number, is the business of `mqtt` and `amqp`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A queue in which everybody has a turn: one item of each sender, then the next of each. A sender's own stay in order."""

    def __init__(self, sender_of: Callable[[T], Hashable]) -> None:
        self._sender_of = sender_of
        self._of_sender: dict[Hashable, deque[T]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, item: T) -> None:
        self._of_sender.setdefault(self._sender_of(item), deque()).append(item)
        self._count += 1

    def popleft(self) -> T:
        sender, items = next(iter(self._of_sender.items()))
        del self._of_sender[sender]
        item = items.popleft()
        if items:
            self._of_sender[sender] = items  # behind all others
        self._count -= 1
        return item

    def clear(self) -> None:
        self._of_sender.clear()
        self._count = 0


class Inbox(Generic[T]):
    def __init__(self, items: "deque[T] | Turns[T] | None" = None) -> None:
        self._items = deque[T]() if items is None else items
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

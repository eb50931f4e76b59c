"""Calls that may hang in a driver, one after the other on a thread of their own.

Such a thread cannot be ended. So nobody waits for it longer than was said, and it does not keep the process alive.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from farmiq.device.weighvision_agent.drivers.plugin import DriverFault

T = TypeVar("T")
Outcome = tuple[T | None, Exception | None]


class OwnThread(Generic[T]):
    """One driver. `call` belongs to the event loop."""

    def __init__(self, name: str, work: Callable[[], T], close: Callable[[], None]) -> None:
        self._name = name
        self._work = work
        self._close = close
        self._turns: queue.SimpleQueue[Callable[[Outcome[T]], None] | None] = queue.SimpleQueue()
        self._is_started = False
        self._is_busy = False

    async def call(self, timeout_seconds: float) -> T:
        """What the driver answers, or `DriverFault`: it raised, it took too long, or it has not come back from the last time."""
        if self._is_busy:
            raise DriverFault(f"the {self._name} has not come back from the call before this one")
        self._start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome[T]] = loop.create_future()

        def arrived(outcome: Outcome[T]) -> None:
            self._is_busy = False
            if not answer.done():
                answer.set_result(outcome)

        self._is_busy = True
        self._turns.put(lambda outcome: _hand_to(loop, arrived, outcome))
        try:
            async with asyncio.timeout(timeout_seconds):
                value, error = await answer
        except TimeoutError as late:
            raise DriverFault(f"the {self._name} gave no answer within {timeout_seconds:g} s") from late
        if error is not None:
            said = str(error) if isinstance(error, DriverFault) else f"{type(error).__name__}: {error}"
            raise DriverFault(said) from error
        return value  # type: ignore[return-value]  # without an error there is a value

    def end(self) -> None:
        """The driver is closed on its own thread, if that comes back."""
        self._turns.put(None)

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while (give := self._turns.get()) is not None:
            give(_attempt(self._work))
        _attempt(self._close)


def _attempt(work: Callable[[], T]) -> Outcome[T]:
    try:
        return work(), None
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything, and the thread must live to be asked again
        return None, error


def _hand_to(loop: asyncio.AbstractEventLoop, arrived: Callable[[Outcome[T]], None], outcome: Outcome[T]) -> None:
    try:
        loop.call_soon_threadsafe(arrived, outcome)
    except RuntimeError:
        return  # the loop is closed: the answer of a call that hung until after the end

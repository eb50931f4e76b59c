"""Reads that may hang in the kernel, each on a thread of its own.

A file of sysfs is read by talking to a chip, and a chip that does not answer can hold the reader for good. Such a thread cannot
be ended; so each channel has one to itself, nobody waits for it longer than was said, and it does not keep the process alive.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence

from farmiq.device.node_agent.drivers.plugin import Fault, Reading


class BadReading(Exception):
    """The sensor answered, and the answer is no measurement."""


class ThreadedDriver:
    """One function for each channel. It answers the value, or raises `BadReading` or `OSError`."""

    def __init__(self, reads: Sequence[Callable[[], float]], timeout_seconds: float) -> None:
        self._threads = [_OwnThread(read) for read in reads]
        self._timeout_seconds = timeout_seconds

    async def read(self) -> list[Reading]:
        return await asyncio.gather(*(thread.read(self._timeout_seconds) for thread in self._threads))

    async def close(self) -> None:
        for thread in self._threads:
            thread.end()


class _OwnThread:
    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self._turns: queue.SimpleQueue[Callable[[Reading], None] | None] = queue.SimpleQueue()
        self._is_started = False
        self._is_busy = False

    async def read(self, timeout_seconds: float) -> Reading:
        if self._is_busy:
            return Fault("the read before this one has not come back")
        self._start()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Reading] = loop.create_future()

        def arrived(reading: Reading) -> None:
            self._is_busy = False
            if not answer.done():
                answer.set_result(reading)

        self._is_busy = True
        self._turns.put(lambda reading: _hand_to(loop, arrived, reading))
        try:
            async with asyncio.timeout(timeout_seconds):
                return await answer
        except TimeoutError:
            return Fault(f"no answer within {timeout_seconds:g} s")

    def end(self) -> None:
        self._turns.put(None)

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._work, name="sensor", daemon=True).start()

    def _work(self) -> None:
        while (give := self._turns.get()) is not None:
            give(_attempt(self._read))


def _attempt(read: Callable[[], float]) -> Reading:
    try:
        return read()
    except (BadReading, OSError) as error:
        return Fault(str(error))
    except Exception as error:  # noqa: BLE001 - a thread that ended here would leave its sensor "busy" for good
        return Fault(f"{type(error).__name__}: {error}")


def _hand_to(loop: asyncio.AbstractEventLoop, arrived: Callable[[Reading], None], reading: Reading) -> None:
    try:
        loop.call_soon_threadsafe(arrived, reading)
    except RuntimeError:
        return  # the loop is closed: the answer of a read that hung until after the end

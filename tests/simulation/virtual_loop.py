"""An event loop whose time is a number. Nothing waits: when nobody is ready, the clock moves on to the next timer.

Every callback belongs to the process in whose context it was scheduled. Those of a killed process are never run: no `except` and
no `finally` sees the end, as with `kill -9`. Those of a stopped process are kept until it goes on.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from simulation.process import PROCESS, Ended, Process


class NothingLeft(Exception):
    """Everybody waits for somebody else: no timer is set, and no callback is due."""


class _Steady(asyncio.Task[Any]):
    """Sets of tasks are in the order in which the tasks were made, and not of their addresses."""

    def __init__(self, *args: Any, **more: Any) -> None:
        loop = more["loop"]
        self._number = len(loop.tasks)
        loop.tasks.append(self)
        super().__init__(*args, **more)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _NoSockets:
    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        self._loop.move_on(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, blocking_seconds: Callable[[], float]) -> None:
        super().__init__()
        self.tasks: list[
            asyncio.Task[Any]
        ] = []  # held here: one that nobody else holds would be closed, and so see its end
        self._now = 0.0
        self._is_over = False
        self._silent: set[Process] = set()
        self._blocking_seconds = blocking_seconds
        self._selector = _NoSockets(self)
        self.set_task_factory(lambda loop, coroutine, **more: _Steady(coroutine, loop=loop, **more))
        self.set_exception_handler(lambda _loop, _context: None)  # a killed process leaves tasks that nobody awaits

    def time(self) -> float:
        return self._now

    def move_on(self, seconds: float | None) -> None:
        if seconds is None:
            raise NothingLeft
        if seconds > 0:
            scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]  # of asyncio's own loop
            self._now = max(self._now, scheduled[0].when())

    async def pause(self, seconds: float) -> None:
        over = self.create_future()
        self.call_later(seconds, _set, over, None)
        await over

    async def step(self) -> None:
        """Between two things that others can see: here a process may end, and then comes no further."""
        process = PROCESS.get()
        if process is not None and process.burn() and not self._is_over:
            await self.create_future()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]  # less exact
        context = context or contextvars.copy_context()
        return super().call_soon(self._run_for, context, callback, args, context=context)

    def call_at(  # type: ignore[override]  # less exact
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        context = context or contextvars.copy_context()
        return super().call_at(when, self._run_for, context, callback, args, context=context)

    def _run_for(self, context: contextvars.Context, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        process = context.get(PROCESS)
        if process is None or process.is_running or self._is_over:
            callback(*args)
        else:
            process.kept_back.append((context, callback, args))
            self._silent.add(process)

    def go_on(self, process: Process) -> None:
        """A stopped process is let go: what came due meanwhile happens now."""
        kept, process.kept_back = process.kept_back, []
        for context, callback, args in kept:
            self.call_soon(callback, *args, context=context)

    def run_in_executor(self, _executor: object, work: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":  # type: ignore[override]  # only this form is used
        """At once, and the answer a little later: whoever is killed in between has done it and does not know."""
        process = PROCESS.get()
        done: asyncio.Future[Any] = self.create_future()
        if process is None or self._is_over:
            raise Ended("the process is gone")
        try:
            result = process.block(lambda: work(*args))
        except Ended:
            return done  # never
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for whoever awaits it
            self.call_later(self._blocking_seconds(), _fail, done, error)
        else:
            self.call_later(self._blocking_seconds(), _set, done, result)
        return done

    def finish(self) -> None:
        """Let every task end, so that nothing is left to the garbage collector. Nobody can change anything any more."""
        self._is_over = True
        for process in self._silent:
            self.go_on(process)
        for _ in range(50):
            tasks = [task for task in self.tasks if not task.done()]
            if not tasks:
                break
            for task in tasks:
                task.cancel()
            self.run_until_complete(_a_few_turns(self))
        self.close()

    def _process_events(self, _events: list[object]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


async def _a_few_turns(loop: VirtualLoop) -> None:
    for _ in range(10):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def _set(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)

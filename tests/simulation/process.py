"""What runs on one of the machines, and can be killed or stopped at any moment."""

import contextvars
from collections.abc import Callable
from typing import Any, TypeVar

from support.forgetting_disk import Ended

__all__ = ["PROCESS", "Ended", "Process", "Step"]

T = TypeVar("T")

PROCESS: "contextvars.ContextVar[Process | None]" = contextvars.ContextVar("simulated_process", default=None)

Step = tuple[contextvars.Context, Callable[..., Any], tuple[Any, ...]]


class Process:
    """One life of one service: started again, it is another process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_stopped = False
        self.fuse = 0  # after so many calls to the outside it ends; 0: not by itself
        self.kept_back: list[Step] = []
        self.at_end: list[Callable[[], None]] = []
        """What the machine around it does when it is gone: roll its transactions back, break its connections."""

    @property
    def is_running(self) -> bool:
        return self.is_alive and not self.is_stopped

    def end(self) -> None:
        if self.is_alive:
            self.is_alive = False
            for clean_up in list(self.at_end):
                clean_up()

    def check(self) -> None:
        """Before anything that others can see: a process that has ended changes nothing any more."""
        if not self.is_alive:
            raise Ended(self.name)

    def burn(self) -> bool:
        """One call further. True when this was the last one."""
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                self.end()
        return not self.is_alive

    def block(self, work: Callable[[], T]) -> T:
        """A call that would hold a thread. Overridden where there is a disk below."""
        self.check()
        return work()

    def context(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        return context

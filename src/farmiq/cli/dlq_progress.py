"""How far an action on dead letters has come. On stderr, so that stdout is the answer."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from farmiq.cli.spool_progress import LINE_SECONDS
from farmiq.cli.terminal import is_interactive

if TYPE_CHECKING:
    from collections.abc import Callable

    from farmiq.cloud.dead_letters.audit import Counts
    from farmiq.cloud.dead_letters.course import OnProgress


@contextmanager
def showing_letters(what: str) -> "Iterator[OnProgress]":
    if not is_interactive(sys.stderr):
        yield Lines(what, sys.stderr.write, time.monotonic)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)

        def update(counts: "Counts", messages: int) -> None:
            done = f"{what}: {counts.done:,} of {counts.matched:,} that match"
            progress.update(task, completed=counts.seen, total=messages, description=done)

        yield update


class Lines:
    """Says nothing about work that is done at once."""

    def __init__(self, what: str, write: "Callable[[str], object]", monotonic: "Callable[[], float]") -> None:
        self._what = what
        self._write = write
        self._monotonic = monotonic
        self._said_at = monotonic()

    def __call__(self, counts: "Counts", messages: int) -> None:
        now = self._monotonic()
        if now - self._said_at >= LINE_SECONDS:
            self._said_at = now
            self._write(
                f"{self._what}: looked at {counts.seen:,} of {messages:,}, {counts.matched:,} match, {counts.done:,} done\n"
            )

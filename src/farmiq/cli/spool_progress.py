"""How far a long read has come: a bar for a person, a line now and then otherwise. On stderr, so that stdout is the answer."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from farmiq.cli.terminal import is_interactive

LINE_SECONDS = 5.0

OnBytes = Callable[[int, int], None]


@contextmanager
def showing_bytes(what: str) -> Iterator[OnBytes]:
    if not is_interactive(sys.stderr):
        yield Lines(what, sys.stderr.write, time.monotonic)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class Lines:
    """Says nothing about work that is done at once."""

    def __init__(self, what: str, write: Callable[[str], object], monotonic: Callable[[], float]) -> None:
        self._what = what
        self._write = write
        self._monotonic = monotonic
        self._said_at = monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = self._monotonic()
        if now - self._said_at >= LINE_SECONDS:
            self._said_at = now
            self._write(f"{self._what}: {100 * done // max(total, 1)} %\n")

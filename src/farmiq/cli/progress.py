"""What `farmiq up` shows while it waits: a moving table for a person, one line for each step otherwise."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from farmiq.cli.terminal import console, is_interactive, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from farmiq.stack.state import ChildState, StackState

OnProgress = Callable[["StackState"], None]
REFRESH_PER_SECOND = 10


@contextmanager
def showing_progress() -> Iterator[OnProgress]:
    if not is_interactive():
        yield Lines(say, time.monotonic)
        return
    from rich.live import Live

    picture = Picture(time.monotonic)
    with Live(picture, console=console(), refresh_per_second=REFRESH_PER_SECOND, transient=True):
        yield picture.update


class Lines:
    """Says each thing once: a child that came up, one that has trouble, a new phase."""

    def __init__(self, write: Callable[[str], None], monotonic: Callable[[], float]) -> None:
        self._write = write
        self._monotonic = monotonic
        self._began = monotonic()
        self._said: dict[str, str] = {}

    def __call__(self, state: "StackState") -> None:
        self._once("phase", state.phase if state.phase in ("provisioning", "stopping") else "")
        for child in state.children:
            self._once(child.name, news_of(child))

    def _once(self, subject: str, text: str) -> None:
        if text and self._said.get(subject) != text:
            self._write(f"{self._monotonic() - self._began:6.1f} s  {text}")
        if text:
            self._said[subject] = text


def news_of(child: "ChildState") -> str:
    if child.state == "healthy":
        return f"{child.name} is up"
    if child.state in ("unhealthy", "backoff"):
        return f"{child.name} is in trouble: {child.problem or child.last_exit}"
    return ""


class Picture:
    """Redrawn by rich several times a second, so that seconds pass also when nothing else happens."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        from rich.spinner import Spinner

        self._monotonic = monotonic
        self._began = monotonic()
        self._up_after: dict[str, float] = {}
        self._state: StackState | None = None
        self._spinner = Spinner("dots")

    def update(self, state: "StackState") -> None:
        self._state = state
        for child in state.children:
            if child.state == "healthy":
                self._up_after.setdefault(child.name, self._monotonic() - self._began)
            else:
                self._up_after.pop(child.name, None)

    def __rich__(self) -> "RenderableType":
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
        phase = self._state.phase if self._state else "starting"
        table.add_row(self._spinner, Text(phase, style="bold"), f"{self._monotonic() - self._began:.1f} s", "")
        for child in self._state.children if self._state else ():
            table.add_row(*self._row(child))
        return table

    def _row(self, child: "ChildState") -> "tuple[RenderableType, ...]":
        from rich.text import Text

        if child.name in self._up_after:
            return Text("✔", style="green"), child.name, f"{self._up_after[child.name]:.1f} s", ""
        if child.state == "stopped":
            return Text("·", style="dim"), Text(child.name, style="dim"), "", ""
        trouble = Text(child.problem or child.last_exit or "", style="yellow", overflow="ellipsis", no_wrap=True)
        return self._spinner, child.name, "", trouble if child.restarts or child.state == "unhealthy" else ""

"""Looks at a farm again and again, and shows it: a picture that moves for a person, a line a look otherwise."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from farmiq.cli.flow import Asker, Counted
from farmiq.cli.flow_picture import View, as_data, as_line, as_picture, view_of
from farmiq.cli.flow_sums import Pace, removed
from farmiq.cli.terminal import console, is_interactive, say

if TYPE_CHECKING:
    from farmiq.stack.home import Home

LOOK_SECONDS = 1.0
# The first lines show that something moves. After that a line tells little that the one before it did not.
EACH_SECOND_UNTIL = 4.0
LINE_GROWTH = 1.5

Show = Callable[[View], None]


class Watcher:
    """One look after the other, with the rates between them. `since`: the counters from which duplicates are counted."""

    def __init__(self, asker: Asker, since: Mapping[str, Counted] | None = None) -> None:
        self._asker = asker
        self._pace = Pace()
        self._last: dict[str, Counted] = dict(since or {})
        self._is_counting = since is not None
        self.duplicates = 0

    def look(self) -> View:
        flow = self._asker.look()
        if self._is_counting:
            self.duplicates += removed(self._last, flow.duplicates)
        self._is_counting = True
        self._last |= flow.duplicates
        return view_of(flow, self._pace.look(flow), self.duplicates)

    def looks(self, seconds: float | None) -> Iterator[View]:
        """One a second, for so long; for ever when None."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            began = time.monotonic()
            yield self.look()
            pause = max(0.0, LOOK_SECONDS - (time.monotonic() - began))
            if end is not None and time.monotonic() + pause >= end:
                return
            time.sleep(pause)

    @property
    def counters(self) -> dict[str, Counted]:
        return self._last


def asker_for(home: "Home") -> Asker:
    from farmiq.stack.control import environment
    from farmiq.stack.demo_farm import DEVICE_ID, TENANT_ID

    return Asker(home, environment(home), TENANT_ID, DEVICE_ID)


@contextmanager
def shown(title: str, line: Callable[[View], str], *, as_json: bool = False) -> Iterator[Show]:
    """`line` is what one look is where nobody sees pictures move."""
    if as_json:
        yield _show_json
    elif not is_interactive():
        yield lambda view: say(line(view))
    else:
        from rich.live import Live

        with Live(console=console(), auto_refresh=False, transient=False) as live:
            yield lambda view: live.update(as_picture(view, title, datetime.now(UTC)), refresh=True)


class Occasional:
    """Of lines that come each second, it writes those of the first seconds and then fewer; and each of another kind."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._next_at = 0.0
        self._kind: object = None

    def __call__(self, seconds: float, kind: object, line: str) -> None:
        """`kind` is what does not change with every look."""
        if seconds < self._next_at and kind == self._kind:
            return
        self._write(line)
        self._kind = kind
        self._next_at = seconds + LOOK_SECONDS / 2 if seconds < EACH_SECOND_UNTIL else seconds * LINE_GROWTH


def whole_line(view: View) -> str:
    return as_line(view, datetime.now(UTC))


def _show_json(view: View) -> None:
    import json

    say(json.dumps(as_data(view, datetime.now(UTC)), ensure_ascii=False))

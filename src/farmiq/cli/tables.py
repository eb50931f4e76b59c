"""Children and durations as a person reads them."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from farmiq.stack.state import ChildState

# Color is never the only sign: each state has a mark too.
MARKS = {"healthy": "✔", "starting": "…", "backoff": "↻", "unhealthy": "✗", "stopped": "·"}
COLORS = {"healthy": "green", "starting": "yellow", "backoff": "yellow", "unhealthy": "red", "stopped": "dim"}


def duration(seconds: float) -> str:
    """The two largest units: `4 s`, `3 m 12 s`, `2 h 03 m`, `5 d 04 h`."""
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour:02} h"
    if hours:
        return f"{hours} h {minute:02} m"
    return f"{minutes} m {second:02} s" if minutes else f"{second} s"


def children_table(title: str, children: "Iterable[ChildState]", now: datetime) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("name", min_width=26, no_wrap=True)
    table.add_column("state", min_width=12, no_wrap=True)
    for column in ("pid", "restarts", "port"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("for", justify="right", min_width=9, no_wrap=True)
    table.add_column("problem", overflow="fold")
    for child in children:
        table.add_row(
            child.name,
            f"[{COLORS[child.state]}]{MARKS[child.state]} {child.state}[/]",
            _or_dash(child.pid),
            str(child.restarts),
            _or_dash(child.port),
            duration((now - child.since).total_seconds()),
            _plain(problem_of(child)),
        )
    return table


def problem_of(child: "ChildState") -> str:
    """What is wrong now; else what it died of last, because somebody who sees restarts asks that next."""
    if child.problem:
        return child.problem
    return f"ended with {child.last_exit}" if child.last_exit and child.state != "stopped" else ""


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)

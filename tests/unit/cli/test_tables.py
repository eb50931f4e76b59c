import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from farmiq.cli.tables import children_table, duration
from farmiq.stack.state import ChildState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0 s"), (4.9, "4 s"), (192, "3 m 12 s"), (7380, "2 h 03 m"), (446400, "5 d 04 h")],
)
def test_a_duration_has_the_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_row_shows_what_runs_and_what_it_died_of() -> None:
    children = [
        ChildState(
            name="postgres", kind="server", state="healthy", since=NOW - timedelta(minutes=3), log="", pid=7, port=5432
        ),
        ChildState(
            name="mosquitto", kind="server", state="backoff", since=NOW, log="", restarts=2, last_exit="signal SIGKILL"
        ),
        ChildState(name="rabbitmq", kind="server", state="unhealthy", since=NOW, log="", problem="[Errno 111] refused"),
    ]
    page = Console(file=io.StringIO(), width=150)
    page.print(children_table("Servers", children, NOW))
    assert isinstance(page.file, io.StringIO)
    title, header, *rows = [line.split() for line in page.file.getvalue().splitlines()]
    assert title == ["Servers"]
    assert header == ["name", "state", "pid", "restarts", "port", "for", "problem"]
    assert rows == [
        ["postgres", "✔", "healthy", "7", "0", "5432", "3", "m", "00", "s"],
        ["mosquitto", "↻", "backoff", "-", "2", "-", "0", "s", "ended", "with", "signal", "SIGKILL"],
        ["rabbitmq", "✗", "unhealthy", "-", "0", "-", "0", "s", "[Errno", "111]", "refused"],
    ]

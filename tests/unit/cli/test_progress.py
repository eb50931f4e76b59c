import io
from datetime import UTC, datetime

from rich.console import Console

from farmiq.cli.progress import Lines, Picture
from farmiq.stack.state import ChildState, Health, Phase, StackState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def stack(phase: Phase, **states: Health) -> StackState:
    children = [
        ChildState(name=name, kind="server", state=state, since=NOW, log="", last_exit="exit code 1", restarts=1)
        for name, state in states.items()
    ]
    return StackState(home="home", phase=phase, children=children)


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_step_is_one_line_and_said_once() -> None:
    said: list[str] = []
    seconds = Seconds()
    lines = Lines(said.append, seconds)
    lines(stack("starting", postgres="starting", mosquitto="healthy"))
    seconds.now += 1.5
    lines(stack("starting", postgres="healthy", mosquitto="healthy"))
    lines(stack("provisioning", postgres="healthy", mosquitto="backoff"))
    assert said == [
        "   0.0 s  mosquitto is up",
        "   1.5 s  postgres is up",
        "   1.5 s  provisioning",
        "   1.5 s  mosquitto is in trouble: exit code 1",
    ]


def test_a_child_that_recovers_is_said_again() -> None:
    said: list[str] = []
    lines = Lines(said.append, Seconds())
    for state in ("healthy", "backoff", "starting", "healthy"):
        lines(stack("running", postgres=state))
    assert said == [
        "   0.0 s  postgres is up",
        "   0.0 s  postgres is in trouble: exit code 1",
        "   0.0 s  postgres is up",
    ]


def drawn(picture: Picture) -> str:
    page = Console(file=io.StringIO(), width=100)
    page.print(picture)
    assert isinstance(page.file, io.StringIO)
    return page.file.getvalue()


def test_the_picture_shows_how_long_each_took_and_what_is_wrong() -> None:
    seconds = Seconds()
    picture = Picture(seconds)
    assert "starting" in drawn(picture)
    seconds.now += 2
    picture.update(stack("starting", postgres="healthy", rabbitmq="starting", seaweedfs="stopped"))
    seconds.now += 3
    rows = {row.split()[1]: row for row in drawn(picture).splitlines()}
    assert "5.0 s" in rows["starting"]
    assert rows["postgres"].split() == ["✔", "postgres", "2.0", "s"]
    assert "exit code 1" in rows["rabbitmq"]
    assert rows["seaweedfs"].split() == ["·", "seaweedfs"]


def test_a_child_that_died_loses_its_mark() -> None:
    picture = Picture(Seconds())
    picture.update(stack("starting", postgres="healthy"))
    picture.update(stack("starting", postgres="backoff"))
    assert "✔" not in drawn(picture)

import fcntl
from datetime import UTC, datetime
from pathlib import Path

import pytest

from farmiq.stack.home import Home
from farmiq.stack.state import ChildState, StackState, is_supervised, read_state, write_state

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    return home


def running(home: Home, *states: str) -> StackState:
    children = [
        ChildState(name=f"child-{number}", kind="server", state=state, since=AT, log="x.log")  # type: ignore[arg-type]  # from a test
        for number, state in enumerate(states)
    ]
    return StackState(home=str(home.path), phase="running", supervisor_pid=1, children=children)


def test_a_home_where_nothing_ever_ran_is_stopped(tmp_path: Path) -> None:
    assert read_state(Home(tmp_path / "none")).phase == "stopped"


def test_what_a_living_supervisor_wrote_is_read_back(home: Home) -> None:
    written = running(home, "healthy", "backoff")
    write_state(home, written)
    with home.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert is_supervised(home)
        assert read_state(home) == written


def test_a_supervisor_that_was_killed_is_not_believed(home: Home) -> None:
    write_state(home, running(home, "healthy"))
    home.lock_file.touch()
    state = read_state(home)
    assert not is_supervised(home)
    assert state.phase == "stopped"
    assert "killed" in (state.problem or "")


def test_a_failure_is_still_told_after_the_supervisor_ended(home: Home) -> None:
    write_state(home, StackState(home=str(home.path), phase="failed", problem="the disk is full"))
    assert read_state(home).problem == "the disk is full"


@pytest.mark.parametrize(("states", "is_healthy"), [(("healthy", "healthy"), True), (("healthy", "unhealthy"), False)])
def test_a_stack_is_healthy_when_every_child_is(home: Home, states: tuple[str, ...], is_healthy: bool) -> None:
    assert running(home, *states).is_healthy is is_healthy

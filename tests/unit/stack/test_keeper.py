import signal
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from farmiq.kit.clock import Clock
from farmiq.kit.retry import Backoff
from farmiq.stack.children import Child
from farmiq.stack.home import Home
from farmiq.stack.keeper import BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS, STABLE_SECONDS, Keeper, pause_after_death
from farmiq.stack.processes import leftovers
from farmiq.stack.program import plain_environment
from support.waiting import eventually

SLEEP = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
WITH_CHILD = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); time.sleep(600)"


@dataclass
class Script:
    code: str
    problems: list[Exception] = field(default_factory=list)
    stop_seconds: float = 5.0

    name = "script"
    stop_signal = signal.SIGTERM

    def prepare(self) -> None:
        if isinstance(self.problems and self.problems[0], OSError):
            raise self.problems.pop(0)

    def command(self) -> list[str]:
        return [sys.executable, "-c", self.code]

    def environment(self) -> dict[str, str]:
        return plain_environment()

    async def probe(self) -> None:
        if self.problems:
            raise self.problems[0]

    def outside(self) -> list[Path]:
        return []


@pytest.fixture
def home(run_folder: Path, tmp_path: Path) -> Home:
    """Inside the run's folder, so that its warden ends what a failing test leaves."""
    home = Home(run_folder / tmp_path.name)
    home.create()
    return home


@pytest.fixture
async def keep(home: Home) -> AsyncIterator[Callable[[Script], Keeper]]:
    keepers: list[Keeper] = []

    def start(script: Script) -> Keeper:
        keeper = Keeper(Child(script, "server"), home, lambda: None, Clock())
        keepers.append(keeper)
        keeper.start()
        return keeper

    yield start
    for keeper in keepers:
        await keeper.stop()


async def reached(keeper: Keeper, state: str) -> None:
    async def is_there() -> bool:
        return keeper.state.state == state

    await eventually(is_there, what=f"{state} (now {keeper.state})")


async def test_a_child_that_is_killed_is_started_again(keep: Callable[[Script], Keeper], home: Home) -> None:
    keeper = keep(Script(SLEEP))
    await reached(keeper, "healthy")
    (first,) = leftovers(home.path)
    first.signal(signal.SIGKILL)
    await reached(keeper, "backoff")
    assert keeper.state.last_exit == "signal SIGKILL"
    assert keeper.state.pid is None
    await reached(keeper, "healthy")
    assert keeper.state.restarts == 1
    assert keeper.state.pid not in (None, first.pid)


async def test_a_child_that_keeps_failing_is_tried_again_and_again(keep: Callable[[Script], Keeper]) -> None:
    keeper = keep(Script("raise SystemExit(3)", problems=[ValueError("not yet")]))

    async def tried_three_times() -> bool:
        return keeper.state.restarts >= 3

    await eventually(tried_three_times)
    assert keeper.state.last_exit == "exit code 3"


def test_one_that_lives_for_a_while_between_two_deaths_is_never_waited_for_long() -> None:
    """Killed every minute it was away for half of the time: the pauses had grown as if it could not live at all."""
    backoff = Backoff(BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS)
    assert all(pause_after_death(backoff, STABLE_SECONDS + 1) <= BACKOFF_BASE_SECONDS for _ in range(20))
    pauses = [pause_after_death(backoff, 1.0) for _ in range(20)]
    assert max(pauses) > BACKOFF_CAP_SECONDS / 2


async def test_a_child_that_can_not_be_prepared_says_why_and_is_tried_again(keep: Callable[[Script], Keeper]) -> None:
    keeper = keep(Script(SLEEP, problems=[OSError("no space left")]))
    await reached(keeper, "backoff")
    assert "no space left" in (keeper.state.problem or "")
    await reached(keeper, "healthy")
    assert keeper.state.problem is None


async def test_what_a_dead_child_had_started_is_ended_before_the_next_try(
    keep: Callable[[Script], Keeper], home: Home
) -> None:
    keeper = keep(Script(WITH_CHILD))

    async def has_child() -> bool:
        return len(leftovers(home.path)) == 2

    await eventually(has_child)
    before = {process.pid for process in leftovers(home.path)}
    (parent,) = [process for process in leftovers(home.path) if process.pid == keeper.state.pid]
    parent.signal(signal.SIGKILL)
    await reached(keeper, "backoff")
    await reached(keeper, "healthy")
    assert not before & {process.pid for process in leftovers(home.path)}


async def test_a_child_whose_probe_fails_shows_the_problem_and_is_not_healthy(keep: Callable[[Script], Keeper]) -> None:
    script = Script(SLEEP, problems=[ValueError("postgresql://edge:hidden@host refuses")])
    keeper = keep(script)

    async def has_problem() -> bool:
        return keeper.state.problem is not None

    await eventually(has_problem)
    assert keeper.state.state == "starting"
    assert "refuses" in (keeper.state.problem or "")
    assert "hidden" not in (keeper.state.problem or "")
    script.problems.clear()
    await reached(keeper, "healthy")


async def test_a_child_that_does_not_stop_is_killed(keep: Callable[[Script], Keeper], home: Home) -> None:
    keeper = keep(Script(DEAF, stop_seconds=0.2))
    await reached(keeper, "healthy")
    await keeper.stop()
    assert keeper.state.state == "stopped"
    assert leftovers(home.path) == []


async def test_a_keeper_that_is_stopped_while_it_starts_leaves_no_child(home: Home) -> None:
    keeper = Keeper(Child(Script(SLEEP), "server"), home, lambda: None, Clock())
    keeper.start()
    await keeper.stop()
    assert leftovers(home.path) == []

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from farmiq import __version__
from farmiq.cli.errors import CommandFailed
from farmiq.cli.terminal import own_name, say, say_json

if TYPE_CHECKING:
    from datetime import datetime

    from farmiq.cli.progress import OnProgress
    from farmiq.stack.errors import StackError
    from farmiq.stack.home import Home
    from farmiq.stack.state import ChildState, StackState

# A child that has died so often while we watch will not come up by being started once more.
DEATHS_MAX = 4
STEADY_SECONDS = 3.0
POLL_SECONDS = 0.1
LOG_LINES_SHOWN = 12
LOGS_SHOWN = 2


def up(
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")] = False,
) -> None:
    """Start the farm in the background, wait until it is healthy.

    Does nothing when it runs already. The data is in FARMIQ_HOME, else in .farmiq of the checkout, else in ./.farmiq.
    """
    from farmiq.cli.running import this_home

    home = this_home()
    if not as_json:
        say(f"farmiq {__version__} · {home.path}")
    from farmiq.stack import control

    is_new = control.start(home, os.environ)
    state = bring_up(home, is_quiet=as_json)
    found = control.environment(home)
    if as_json:
        from farmiq.cli.status import as_data

        say_json({**as_data(state, []), "environment": found, "is_new": is_new})
        return
    from farmiq.cli.summary import show

    show(state, found, is_new=is_new)


def bring_up(home: "Home", *, is_quiet: bool) -> "StackState":
    import time
    from datetime import UTC, datetime

    from farmiq.cli.progress import showing_progress
    from farmiq.stack.control import wait_until_healthy
    from farmiq.stack.errors import StackError

    def wait(show: "OnProgress") -> "StackState":
        patience = Patience(show)
        while True:
            state = wait_until_healthy(home, patience)
            if is_steady(state, patience, datetime.now(UTC)):
                return state
            time.sleep(POLL_SECONDS)

    try:
        if is_quiet:
            return wait(lambda _: None)
        with showing_progress() as show:
            return wait(show)
    except StackError as error:
        _explain_failure(home, error)
    except KeyboardInterrupt:
        say(f"\nThe farm goes on starting in the background. See: {own_name()} status. End it: {own_name()} down")
        raise


class Patience:
    """Passes progress on, and gives up early on a child that will not come up by waiting."""

    def __init__(self, show: "OnProgress") -> None:
        self._show = show
        self._restarts_before: dict[str, int] = {}

    def __call__(self, state: "StackState") -> None:
        self._show(state)
        hopeless = [child for child in state.children if self._is_hopeless(child)]
        if hopeless:
            raise not_healthy(hopeless)

    def _is_hopeless(self, child: "ChildState") -> bool:
        from farmiq.cli.exits import BAD_SETTINGS

        deaths = self.deaths_of(child)
        if child.state == "healthy":
            return False
        return (deaths > 0 and child.last_exit == f"exit code {BAD_SETTINGS}") or deaths >= DEATHS_MAX

    def deaths_of(self, child: "ChildState") -> int:
        """How often it has died since we began to watch."""
        return child.restarts - self._restarts_before.setdefault(child.name, child.restarts)


def is_steady(state: "StackState", patience: Patience, now: "datetime") -> bool:
    """One that has just died, or that has no port to be asked on, must have lived a while before we call it up."""
    return all(
        (now - child.since).total_seconds() >= STEADY_SECONDS
        for child in state.children
        if child.kind == "service" and (child.port is None or patience.deaths_of(child))
    )


def not_healthy(children: "Sequence[ChildState]") -> CommandFailed:
    """Which ones, the last lines of their logs, and how to look further."""
    names = [child.name for child in children]
    states = "; ".join(f"{child.name} is {child.state}{_because(child)}" for child in children)
    logs = "\n".join(f"The log of {child.name} ends with:\n{log_end(child.log)}" for child in children[:LOGS_SHOWN])
    return CommandFailed(
        f"{', '.join(names)} did not become healthy",
        why=f"{states}\n{logs}",
        fix=f"farmiq logs {names[0]} shows more; farmiq status shows the rest, which goes on running; farmiq down ends it",
    )


def log_end(path: str, count: int = LOG_LINES_SHOWN) -> str:
    from pathlib import Path

    from farmiq.cli.log_lines import Tail, readable

    tail = Tail("", Path(path))
    try:
        lines = [readable(line).strip() for line in tail.last(count)]
    finally:
        tail.close()
    return "\n".join(f"  {line}" for line in lines) or "  (it is empty)"


def _because(child: "ChildState") -> str:
    reason = child.problem or (f"it ended with {child.last_exit}" if child.last_exit else "")
    return f": {reason}" if reason else ""


def _explain_failure(home: "Home", error: "StackError") -> NoReturn:
    from farmiq.stack.control import read_state

    state = read_state(home)
    late = [child for child in state.children if child.state != "healthy"]
    if state.phase == "running" and late:
        raise not_healthy(late) from error
    supervisor = home.log_file("supervisor")
    raise CommandFailed(
        "the farm did not start",
        why=f"{error}\nThe log of the supervisor ends with:\n{log_end(str(supervisor))}",
        fix="farmiq doctor, then farmiq logs supervisor",
    ) from error

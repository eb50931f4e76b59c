"""Which farm a command is about, and whether it runs."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from farmiq.cli.errors import NotRunning

if TYPE_CHECKING:
    from farmiq.stack.home import Home
    from farmiq.stack.state import StackState


def this_home(environ: Mapping[str, str] = os.environ) -> "Home":
    from farmiq.stack.home import find_home

    return find_home(environ)


def is_running(state: "StackState") -> bool:
    return state.phase not in ("stopped", "failed")


def not_running(state: "StackState") -> NotRunning:
    why = state.problem or "It was never started, or it was stopped."
    return NotRunning(f"no farm runs in {state.home}", why=why, fix="farmiq up")


def running_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Where the parts of the running farm are, with credentials."""
    from farmiq.stack.control import environment, read_state

    home = this_home(environ)
    state = read_state(home)
    if not is_running(state):
        raise not_running(state)
    return environment(home)

"""Which farm a command is about, and whether it runs."""

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from farmiq.cli.errors import BadSetting, NotRunning

if TYPE_CHECKING:
    from pathlib import Path

    from farmiq.stack.home import Home
    from farmiq.stack.state import StackState


def this_home(environ: Mapping[str, str] = os.environ) -> "Home":
    """The farm's folder, refused when it can't be one."""
    from farmiq.stack.home import find_home

    home = find_home(environ)
    refuse_foreign(home.path)
    return home


def refuse_foreign(folder: "Path") -> None:
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
        is_ours = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    except FileNotFoundError:
        return  # made at the first start
    except (NotADirectoryError, PermissionError):
        is_folder = is_ours = False
    if not (is_folder and is_ours):
        raise BadSetting(
            f"{folder} can't hold a farm",
            why="This user may not use the folder." if is_folder else "It is not a folder that this user can reach.",
            fix="set FARMIQ_HOME to a folder of your own, or run this as the user who started the farm",
        )


def is_running(state: "StackState") -> bool:
    return state.phase not in ("stopped", "failed")


def not_running(state: "StackState") -> NotRunning:
    why = state.problem or "It was never started, or it was stopped."
    return NotRunning(f"no farm runs in {state.home}", why=why, fix="farmiq up")


def running_home(environ: Mapping[str, str] = os.environ) -> "Home":
    """Of the farm that runs here."""
    from farmiq.stack.control import read_state

    home = this_home(environ)
    state = read_state(home)
    if not is_running(state):
        raise not_running(state)
    return home


def running_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Where the parts of the running farm are, with credentials."""
    from farmiq.stack.control import environment

    return environment(running_home(environ))

"""Whether a person is looking, and how wide the page is. rich honours `NO_COLOR` by itself."""

import getpass
import os
import socket
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# A pipe has no width. Wide enough that no line of ours is ever broken for a program that reads it.
PIPE_COLUMNS = 200


def say(text: str = "") -> None:
    """One plain line at once, without waiting for rich to be imported or for a buffer to fill."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def is_interactive(stream: IO[str] | None = None) -> bool:
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def has_color(stream: IO[str]) -> bool:
    return is_interactive(stream) and not os.environ.get("NO_COLOR")


def console() -> "Console":
    from rich.console import Console

    if is_interactive():
        return Console(highlight=False)
    return Console(highlight=False, width=PIPE_COLUMNS)


def put(page: "Console", picture: "RenderableType") -> None:
    """rich fills every line of a table with spaces, which only a terminal has a use for."""
    if page.is_terminal:
        page.print(picture)
        return
    with page.capture() as captured:
        page.print(picture)
    page.out("\n".join(line.rstrip() for line in captured.get().splitlines()), highlight=False)


def person() -> str:
    """Who gave the command, for records."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def own_name() -> str:
    """How this program was called, so that the commands which we print can be typed as they stand."""
    import shutil
    from pathlib import Path

    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m farmiq.cli"
    if called.name != "farmiq" or shutil.which("farmiq") == str(called):
        return "farmiq"
    try:
        return str(called.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(called)


def as_json_text(value: Any) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def say_json(value: Any) -> None:
    say(as_json_text(value))

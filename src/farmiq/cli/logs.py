from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.errors import BadUsage, NotRunning, near_matches

if TYPE_CHECKING:
    from farmiq.cli.log_lines import Line, Tail
    from farmiq.stack.home import Home

POLL_SECONDS = 0.2


def complete_log(incomplete: str) -> list[str]:
    from farmiq.cli.running import this_home

    return [name for name in log_names(this_home()) if name.startswith(incomplete)]


def logs(
    service: Annotated[
        str | None,
        typer.Argument(help="A service or a server. All of them when left out.", autocompletion=complete_log),
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with new lines until interrupted.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last lines of each.")] = 100,
    raw: Annotated[
        bool, typer.Option("--raw", "--json", help="Lines as they were written, one JSON object each.")
    ] = False,
) -> None:
    """Show the logs of the farm, also after it has stopped.

    On a terminal lines are made readable; into a pipe they go as they were written. Our services write JSON, servers their own.
    """
    from farmiq.cli.log_lines import in_order_of_time
    from farmiq.cli.running import this_home
    from farmiq.cli.terminal import is_interactive

    is_readable = is_interactive() and not raw
    tails = open_tails(this_home(), service)
    for line in in_order_of_time([tail.last(lines) for tail in tails]):
        _show(line, is_readable=is_readable)
    while follow:
        for tail in tails:
            for line in tail.new():
                _show(line, is_readable=is_readable)
        _pause()


def log_names(home: "Home") -> list[str]:
    folder = home.log_file("any").parent
    return sorted(path.stem for path in folder.glob("*.log"))


def open_tails(home: "Home", service: str | None) -> "list[Tail]":
    from farmiq.cli.log_lines import Tail

    names = log_names(home)
    if not names:
        raise NotRunning(f"there are no logs in {home.path}", why="No farm was ever started there.", fix="farmiq up")
    if service is not None and service not in names:
        raise BadUsage(
            f"there is no log of {service!r}",
            why=f"There are logs of {', '.join(names)}.",
            fix=" or ".join(f"farmiq logs {name}" for name in near_matches(service, names)) or "farmiq logs",
        )
    return [Tail(name, home.log_file(name)) for name in names if service in (None, name)]


def _show(line: "Line", *, is_readable: bool) -> None:
    from farmiq.cli.log_lines import readable
    from farmiq.cli.terminal import say

    say(readable(line) if is_readable else line.text)


def _pause() -> None:
    import time

    time.sleep(POLL_SECONDS)

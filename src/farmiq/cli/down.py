import sys
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.errors import BadUsage
from farmiq.cli.terminal import own_name, say, say_json

if TYPE_CHECKING:
    from farmiq.stack.home import Home


def down(
    purge: Annotated[bool, typer.Option("--purge", help="Delete all data too: samples, credentials, logs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Stop the farm. The data stays, and the next start goes on where this one ended."""
    from farmiq.cli.running import this_home

    home = this_home()
    if purge and not yes:
        confirm_purge(home)
    if not as_json:
        say(f"stopping the farm in {home.path}")
    from farmiq.stack.control import stop
    from farmiq.stack.processes import leftovers

    if purge:
        from farmiq.torture.disks import unmount_below

        unmount_below(home.path)
    was_running = bool(leftovers(home.path))
    stop(home, purge=purge)
    if as_json:
        say_json({"home": str(home.path), "was_running": was_running, "purged": purge})
        return
    say("Everything has ended." if was_running else "Nothing was running.")
    say("All data was deleted." if purge else f"The data stays. Delete it with: {own_name()} down --purge")


def confirm_purge(home: "Home") -> None:
    if not sys.stdin.isatty():
        raise BadUsage(
            f"deleting {home.path} needs a yes",
            why="Nobody can be asked here: the input is not a terminal.",
            fix="farmiq down --purge --yes",
        )
    typer.confirm(f"Delete everything in {home.path}: samples, credentials, logs?", abort=True)

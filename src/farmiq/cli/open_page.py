from typing import Annotated

import typer

from farmiq.cli.terminal import say


def open_page(
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Only print the address.")] = False,
) -> None:
    """Open the console in a browser, and print its address.

    A machine without a browser is no error: the address can be opened from wherever there is one.
    """
    from farmiq.cli.errors import CommandFailed
    from farmiq.cli.running import running_environment
    from farmiq.cli.summary import login_text

    known = running_environment()
    url = known.get("CONSOLE_URL")
    if not url:
        raise CommandFailed("this farm runs no console", why="It was started without it.", fix="farmiq up")
    say(f"{url}   ({login_text(known)})")
    if not no_browser and not _open(url):
        say("No browser could be started here: open the address where there is one.")


def _open(url: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return False

from typing import Annotated

import typer


def env(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Print only this value, as in: farmiq env CONSOLE_PASSWORD.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Print addresses and credentials for a shell.

    Use it as: eval "$(farmiq env)"
    """
    from farmiq.cli.errors import BadUsage, near_matches
    from farmiq.cli.running import running_environment
    from farmiq.cli.secret_output import warn_if_readable
    from farmiq.cli.terminal import say, say_json
    from farmiq.kit.shell import exports

    found = running_environment()
    if name is not None and name not in found:
        fix = " or ".join(f"farmiq env {near}" for near in near_matches(name, found)) or "farmiq env"
        raise BadUsage(f"this farm has no value called {name}", why=f"It has {', '.join(found)}.", fix=fix)
    warn_if_readable(fix="chmod 600 FILE now, and umask 077 before > the next time")
    chosen = found if name is None else {name: found[name]}
    if as_json:
        say_json(chosen)
    else:
        say(exports(chosen) if name is None else found[name])

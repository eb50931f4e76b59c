from typing import Annotated

import typer


def env(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False) -> None:
    """Print addresses and credentials for a shell.

    Use it as: eval "$(farmiq env)"
    """
    from farmiq.cli.running import running_environment
    from farmiq.cli.terminal import say, say_json
    from farmiq.kit.shell import exports

    found = running_environment()
    if as_json:
        say_json(found)
    else:
        say(exports(found))

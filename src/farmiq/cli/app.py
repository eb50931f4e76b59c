from typing import Annotated

import typer

from farmiq import __version__
from farmiq.cli import exits
from farmiq.cli.audit import audit
from farmiq.cli.backup import backup
from farmiq.cli.bus import bus
from farmiq.cli.cloud import cloud
from farmiq.cli.console import console
from farmiq.cli.demo import demo
from farmiq.cli.device import device
from farmiq.cli.dlq import dlq
from farmiq.cli.doctor import doctor
from farmiq.cli.down import down
from farmiq.cli.edge import edge
from farmiq.cli.env import env
from farmiq.cli.jobs import jobs
from farmiq.cli.logs import logs
from farmiq.cli.media import media
from farmiq.cli.migrate import migrate
from farmiq.cli.open_page import open_page
from farmiq.cli.run import run
from farmiq.cli.send import send
from farmiq.cli.size import size
from farmiq.cli.spool import spool
from farmiq.cli.status import status
from farmiq.cli.tenant import tenant
from farmiq.cli.terminal import say
from farmiq.cli.torture import torture
from farmiq.cli.up import up
from farmiq.cli.viewer import viewer
from farmiq.cli.watch import watch

EPILOG = "Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in exits.TABLE.items()) + "."

app = typer.Typer(
    name="farmiq",
    help="A farm on this machine: sensors, edge and cloud, each working while the next is away.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help needs no rich, which takes longer to import than all the rest
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"farmiq {__version__}")
        raise typer.Exit


@app.callback()
def farmiq(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command("help")
def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND...", help="As in: farmiq help device add.")
    ] = None,
) -> None:
    """Show the help of farmiq, or of one of its commands."""
    from farmiq.cli.errors import BadUsage, near_matches

    shown = context.find_root()
    for word in words or ():
        commands = getattr(shown.command, "commands", {})
        if word not in commands:
            meant = near_matches(word, commands)
            raise BadUsage(
                f"{shown.command_path} has no command {word!r}",
                why=f"Its commands are {', '.join(commands)}."
                if commands
                else "It is a command without commands of its own.",
                fix=" or ".join(f"{shown.command_path} {name} --help" for name in meant)
                or f"{shown.command_path} --help",
            )
        shown = type(shown)(commands[word], info_name=word, parent=shown)
    say(shown.get_help())


for command in (up, down, status, logs, env, doctor):
    app.command()(command)
app.command()(run)
app.command()(migrate)
app.command()(size)
app.command()(watch)
app.command()(audit)
app.command()(send)
app.command()(torture)
app.command("open")(open_page)
app.add_typer(demo)
app.add_typer(console)
app.add_typer(jobs)
app.add_typer(device)
app.add_typer(edge)
app.add_typer(viewer)
app.add_typer(tenant)
app.add_typer(cloud)
app.add_typer(bus)
app.add_typer(dlq)
app.add_typer(spool)
app.add_typer(media)
app.add_typer(backup)

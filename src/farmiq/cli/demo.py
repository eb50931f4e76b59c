from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli import exits
from farmiq.cli.demo_links import How, LinkName
from farmiq.cli.terminal import own_name, say, say_json

if TYPE_CHECKING:
    from datetime import datetime

    from farmiq.cli.demo_steps import Healed, Killed
    from farmiq.stack.home import Home

demo = typer.Typer(
    name="demo",
    help="Break the local farm on purpose, and see that nothing is lost.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def complete_child(incomplete: str) -> list[str]:
    from farmiq.cli.running import this_home
    from farmiq.stack.state import read_state

    return [child.name for child in read_state(this_home()).children if child.name.startswith(incomplete)]


@demo.command("break")
def break_link(
    link: Annotated[
        LinkName,
        typer.Argument(
            metavar="LINK", help="wan: edge to cloud. broker: devices to edge. edge-db: edge to its database."
        ),
    ],
    how: Annotated[
        How, typer.Option(help="down: refused. timeout: half-open, bytes vanish. slow: late and narrow.")
    ] = How.DOWN,
    seconds: Annotated[
        float, typer.Option("--for", min=0, metavar="SECONDS", help="How long to show what happens.")
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Break a link, and show what waits and where it is safe.

    It stays broken until `farmiq demo heal`, also when the relay that does it is killed. `farmiq down` ends it too.
    """
    from farmiq.cli.demo_links import told
    from farmiq.cli.demo_steps import break_it
    from farmiq.cli.flow_picture import as_data
    from farmiq.cli.running import running_home

    home = running_home()
    view = break_it(home, link, how, seconds, None if as_json else lambda: say(told(link, how)))
    if as_json:
        say_json(as_data(view, _now()))
        return
    say(f"It stays so. Kill something too: {own_name()} demo kill edge-sync-forwarder. End it: {own_name()} demo heal")


@demo.command()
def kill(
    service: Annotated[
        str,
        typer.Argument(
            metavar="SERVICE",
            help="A service or server of `farmiq status`, or the last words of its name.",
            autocompletion=complete_child,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Kill a service or a server with -9, and wait until it runs again."""
    from farmiq.cli.demo_steps import kill_it
    from farmiq.cli.running import running_home

    killed = kill_it(running_home(), service)
    if as_json:
        import dataclasses

        say_json(dataclasses.asdict(killed))
    else:
        say(_killed_text(killed))
    raise typer.Exit(exits.OK if killed.runs_again_as is not None else exits.FAILED)


@demo.command()
def heal(
    seconds: Annotated[
        float, typer.Option("--for", min=1, metavar="SECONDS", help="How long to wait until everything has arrived.")
    ] = 180.0,
    as_json: AsJson = False,
) -> None:
    """Heal every link, wait until everything has arrived, and count.

    Exit code 0: everything that was captured until now is in the cloud or declared lost; 1: some of it is still on its way.
    """
    from farmiq.cli.demo_steps import heal_all
    from farmiq.cli.running import running_home

    healed = heal_all(running_home(), seconds, None if as_json else say)
    if as_json:
        import dataclasses

        say_json(dataclasses.asdict(healed))
    else:
        say(healed_text(healed))
    raise typer.Exit(exits.OK if healed.is_complete else exits.FAILED)


@demo.command()
def status(as_json: AsJson = False) -> None:
    """Show what is broken, and what waits because of it."""
    from farmiq.cli.demo_steps import watcher_of
    from farmiq.cli.flow_picture import as_data
    from farmiq.cli.running import running_home

    home = running_home()
    view = watcher_of(home).look()
    if as_json:
        say_json(as_data(view, _now()))
        return
    from farmiq.cli.flow_picture import as_picture
    from farmiq.cli.terminal import console, put

    _say_links(home)
    put(console(), as_picture(view, "now", _now()))


def healed_text(healed: "Healed") -> str:
    if not healed.is_complete:
        return _late_text(healed) + (f"\n  why: {healed.why}" if healed.why else "")
    lost = f" + declared lost {healed.lost:,}" if healed.lost else ""
    end = f", lost {healed.lost:,}" if not healed.lost else ""
    return (
        f"captured {healed.captured:,} = stored {healed.stored:,}{lost}, "
        f"duplicates removed {healed.duplicates_removed:,}{end}  ({healed.seconds:.1f} s after healing)"
    )


def _late_text(healed: "Healed") -> str:
    if healed.captured is None:
        return f"After {healed.seconds:.0f} s the cloud does not say what it has. See: {own_name()} status"
    if healed.under_way == 0:
        return (
            f"After {healed.seconds:.0f} s every sample has arrived ({healed.stored:,}), and other events still wait in the "
            f"edge's outbox. Nothing is lost. See: {own_name()} watch"
        )
    return (
        f"After {healed.seconds:.0f} s {healed.under_way:,} of {healed.captured:,} samples are still on their way. "
        f"Nothing is lost. See: {own_name()} watch"
    )


def _killed_text(killed: "Killed") -> str:
    first = f"{killed.name}: process {killed.killed_pid} was killed with -9"
    if killed.runs_again_as is None:
        return f"{first}, and none runs in its place after {killed.seconds:.0f} s. See: {own_name()} logs {killed.name}"
    again = f"{first} · runs again as {killed.runs_again_as} after {killed.seconds:.1f} s"
    if killed.is_healthy:
        return f"{again}, healthy · restarts so far {killed.restarts}"
    return f"{again} · not healthy yet: {killed.problem or 'it is starting'}"


def _say_links(home: "Home") -> None:
    from farmiq.cli.flow_picture import cut_text
    from farmiq.stack.relay.client import RelayClient

    for route in RelayClient(home.relay_socket).look():
        say(
            f"{route.name}: {'is well' if route.is_healthy else cut_text(route, _now()).removeprefix(route.name + ' ')}"
        )
    say()


def _now() -> "datetime":
    from datetime import UTC, datetime

    return datetime.now(UTC)

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli import exits
from farmiq.cli.terminal import say, say_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from farmiq.cli.cloud_drain import BusState
    from farmiq.cli.cloud_topology import Look
    from farmiq.kit.amqp_definitions import Finding

cloud = typer.Typer(
    name="cloud",
    help="The cloud's event bus: its topology, running it empty, and having sent again what it lost.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
topology = typer.Typer(
    name="topology",
    help="Exchanges, queues and bindings: make them, compare them, write them to a file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
cloud.add_typer(topology)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@topology.command()
def apply(as_json: AsJson = False) -> None:
    """Make what is missing.

    Safe to repeat. What exists with other settings is named and left as it is. The broker is AMQP_URL (or AMQP_URL_FILE) when it
    is set, else that of the farm which runs on this machine. Every service of the cloud does the same when it starts.
    """
    import asyncio

    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.cloud_topology import apply_topology, as_data

    made, clashes = asyncio.run(apply_topology(find_bus()))
    if as_json:
        say_json({"made": as_data(made), "different": as_data(clashes)})
    else:
        for one in made:
            say(f"made {one.kind} {one.name}")
        say("Every exchange, queue and binding is there." if not clashes else "Everything else is there.")
        _show(clashes)
    raise typer.Exit(exits.FAILED if clashes else exits.OK)


@topology.command()
def diff(
    definitions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            allow_dash=True,
            help="Compare with what `rabbitmqctl export_definitions FILE` wrote, instead of asking a broker. - reads stdin.",
        ),
    ] = None,
    vhost: Annotated[str | None, typer.Option(help="The virtual host in that file. Default: /")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is missing or different on the broker. Changes nothing.

    Exit code 1 when something is. Over AMQP alone bindings can't be seen: set AMQP_MANAGEMENT_URL=https://user:password@host:15671
    where the management plugin runs, or give a file of definitions.
    """
    import asyncio

    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.cloud_topology import as_data, look_at_bus, look_at_file

    look = asyncio.run(look_at_bus(find_bus())) if definitions is None else look_at_file(definitions, vhost or "/")
    if as_json:
        say_json({"findings": as_data(look.findings), "bindings_seen": look.has_bindings})
    else:
        _tell(look)
    raise typer.Exit(exits.FAILED if look.findings else exits.OK)


@topology.command()
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to write it. Default: to stdout.")] = None,
    vhost: Annotated[str, typer.Option(help="The virtual host that it is for.")] = "/",
) -> None:
    """Write the whole topology as a definitions file, for `rabbitmqctl import_definitions` or infrastructure code.

    It names no users and no permissions.
    """
    from farmiq.cli.cloud_topology import exported

    text = exported(vhost)
    if file is None:
        say(text)
        return
    file.write_text(f"{text}\n", encoding="utf-8")
    say(f"{file} has the exchanges, queues and bindings of virtual host {vhost}. Load it with:")
    say(f"  rabbitmqctl import_definitions {file}")


@cloud.command()
def drain(
    status: Annotated[bool, typer.Option("--status", help="Change nothing: show what is in RabbitMQ.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="So many seconds at most until the queues are empty.")] = 900.0,
    as_json: AsJson = False,
) -> None:
    """Run RabbitMQ empty, so that it can be replaced.

    The cloud answers its edges with 503 from then on, across restarts, until `farmiq cloud resume`: edges keep their events, and
    that costs no event an attempt. The services go on emptying the queues, and dead letters are saved in the database. Safe to
    repeat. Exit code 1 when something is left after --timeout; the intake stays closed then too.
    """
    import asyncio

    from farmiq.cli import cloud_drain
    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.edge_cloud import find_cloud

    target, bus = find_cloud(), find_bus()
    if status:
        seen = asyncio.run(cloud_drain.state(target, bus))
    else:
        with _showing_drain() as watch:
            seen = asyncio.run(cloud_drain.drain(target, bus, timeout, watch))
    if as_json:
        import msgspec

        told = {"is_empty": seen.is_empty, "is_certainly_empty": seen.is_certainly_empty}
        say_json(msgspec.to_builtins(seen) | told)
    else:
        cloud_drain.show(seen)
        if not status:
            _say_next(seen)
    raise typer.Exit(exits.OK if status or seen.is_empty else exits.FAILED)


@cloud.command()
def resume() -> None:
    """Let the cloud take events again after `farmiq cloud drain`.

    Edges send again by themselves, within a minute.
    """
    import asyncio

    from farmiq.cli import cloud_drain
    from farmiq.cli.edge_cloud import find_cloud

    ended = asyncio.run(cloud_drain.resume(find_cloud()))
    if ended is None:
        say("The cloud takes events: it was not drained.")
    else:
        say(f"The cloud takes events again. It was {ended}.")


@cloud.command()
def resend(
    since: Annotated[str, typer.Option(metavar="TIME", help="When it began to be lost: 2026-01-01T10:00:00Z, or 2h.")],
    tenant_id: Annotated[str | None, typer.Option("--tenant", help="Only of this tenant. Default: all.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without: only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Have every edge send again what this cloud has acknowledged since TIME.

    For what the cloud lost after it had accepted it: RabbitMQ without its disk, messages thrown away. It comes again behind what
    is new, and the services recognise what they have. What an edge has deleted by then is declared lost. After `farmiq backup
    restore` all of this happens by itself.
    """
    import asyncio
    from datetime import UTC, datetime

    from farmiq.cli.connected_cloud import connected
    from farmiq.cli.dlq_filters import moment_of
    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.cloud import restore_epoch

    moment = moment_of("--since", since, datetime.now(UTC))
    assert moment is not None  # noqa: S101 - the option is required
    target = find_cloud()

    async def begin() -> restore_epoch.Begun:
        async with connected(target, "cloud") as connection, connection.transaction():
            return await restore_epoch.begin(connection, moment, tenant_id)

    whose = "Every edge" if tenant_id is None else f"Every edge of tenant {tenant_id}"
    what = f"what was acknowledged since {moment:%Y-%m-%d %H:%M:%S} UTC, and for a day before"
    if not yes:
        say(f"{whose} would send again {what}. Nothing was changed: add --yes to do it.")
        return
    begun = asyncio.run(begin())
    if as_json:
        say_json({"epoch": str(begun.epoch.epoch), "edges": begun.edges})
    else:
        say(f"{whose} sends again {what}: {begun.edges} will hear of it with their next request, within minutes.")


@contextmanager
def _showing_drain() -> "Iterator[Callable[[BusState], None]]":
    """A line on stderr whenever something has changed."""
    import sys

    from farmiq.cli.cloud_drain import progress

    shown = ""

    def watch(seen: "BusState") -> None:
        nonlocal shown
        if progress(seen) != shown:
            shown = progress(seen)
            sys.stderr.write(f"{shown}\n")

    yield watch


def _say_next(seen: "BusState") -> None:
    if not seen.is_empty:
        say("RabbitMQ is not empty. The same command goes on; farmiq cloud resume opens the intake again.")
    elif seen.is_certainly_empty:
        say("Nothing of FarmIQ is left in RabbitMQ: it can be replaced. Afterwards: farmiq cloud resume")
    else:
        say(
            "Stop the cloud's services, then give the same command again: what a service had in hand is back in its queue then."
        )


def _tell(look: "Look") -> None:
    if not look.findings:
        say("No difference." if look.has_bindings else "No difference in exchanges and queues.")
    _show(look.findings)
    if not look.has_bindings:
        say("Bindings can't be seen over AMQP: set AMQP_MANAGEMENT_URL, or give --definitions FILE.")


def _show(findings: "Sequence[Finding]") -> None:
    from farmiq.cli.cloud_topology import advice_for

    for one in findings:
        say(f"{one.state}: {one.kind} {one.name}" + (f"\n  {one.detail}" if one.detail else ""))
        say(f"  {advice_for(one)}")

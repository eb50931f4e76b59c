from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.terminal import say_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farmiq.cli.dlq_commands import Place
    from farmiq.cloud.dead_letters.course import Result
    from farmiq.cloud.dead_letters.filters import Filter

dlq = typer.Typer(
    name="dlq",
    help="Dead letters of the cloud's services: see them, bring them back, throw them away.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Service = Annotated[str | None, typer.Option(help="Whose dead letters, for instance cloud-telemetry-service.")]
Queue = Annotated[str | None, typer.Option(help="The same by the name of the dead-letter queue.")]
Reason = Annotated[
    str | None, typer.Option(help="Only those that failed for this reason, as `farmiq dlq ls` shows it.")
]
EventType = Annotated[str | None, typer.Option(help="Only this event type. May end in *.")]
Tenant = Annotated[str | None, typer.Option(help="Only those of this tenant.")]
Since = Annotated[
    str | None, typer.Option(help="Only those that failed since then: 2026-01-01T10:00:00Z, or 2h for two hours ago.")
]
Until = Annotated[str | None, typer.Option(help="Only those that failed before then.")]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this message or event id. Repeat it for several.")]
Limit = Annotated[int | None, typer.Option(min=1, help="So many at most. Default: all.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing: count what would be meant.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@dlq.command("ls")
def list_queues(service: Service = None, queue: Queue = None, as_json: AsJson = False) -> None:
    """Count the dead letters of every service, by reason.

    The broker is AMQP_URL and the database CLOUD_DATABASE_URL when they are set, else those of the farm which runs on this
    machine. A letter that is looked at for the first time moves from its queue into the database.
    """
    import asyncio

    from farmiq.cli.dlq_commands import summaries
    from farmiq.cli.dlq_filters import services_of
    from farmiq.cli.dlq_tables import show_summaries

    meant = services_of(service, queue)
    found = asyncio.run(summaries(_place(as_json=as_json), meant))
    if as_json:
        _say_as_data(found)
    else:
        show_summaries(found)


@dlq.command()
def show(
    service: Service = None,
    queue: Queue = None,
    reason: Reason = None,
    event_type: EventType = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="So many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print dead letters: why they failed, and what is in them."""
    import asyncio

    from farmiq.cli.dlq_commands import letters
    from farmiq.cli.dlq_filters import services_of
    from farmiq.cli.dlq_tables import show_letters
    from farmiq.cloud.dead_letters.views import view_of
    from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX

    meant, wanted = services_of(service, queue), _wanted(reason, event_type, tenant, since, until, ids)
    found = asyncio.run(letters(_place(as_json=as_json), meant, wanted, limit))
    views = [view_of(one, BUS_MESSAGE_BYTES_MAX) for one in found]
    if as_json:
        _say_as_data(views)
    else:
        show_letters(views)


@dlq.command()
def replay(
    service: Service = None,
    queue: Queue = None,
    reason: Reason = None,
    event_type: EventType = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    limit: Limit = None,
    rate: Annotated[
        float | None, typer.Option(min=0.01, help="So many letters a second at most. Default: as fast as it goes.")
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put dead letters back into the queue of their service, after the cause is mended.

    Each is removed here after its queue has confirmed it there. Cut short, it can be given again: it goes on with what is left,
    and what was delivered twice has the effect of one. What fails again comes back as a dead letter.
    """
    import asyncio

    from farmiq.cli import dlq_commands
    from farmiq.cli.dlq_filters import service_of
    from farmiq.cli.dlq_progress import showing_letters

    wanted = _wanted(reason, event_type, tenant, since, until, ids)
    asked = dlq_commands.asked_here(
        "replay", service_of(service, queue, "replay"), wanted, limit=limit, is_dry_run=dry_run
    )
    with showing_letters("replaying") as on_progress:
        result = asyncio.run(dlq_commands.replay(_place(as_json=as_json), asked, rate, on_progress))
    _show_result("replayed", asked.queue, result, is_dry_run=dry_run, as_json=as_json)


@dlq.command()
def discard(
    service: Service = None,
    queue: Queue = None,
    reason: Reason = None,
    event_type: EventType = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them: needed when no filter is given.")] = False,
    limit: Limit = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes", help="Really remove them.")] = False,
    why: Annotated[str | None, typer.Option(help="The reason, as it is written into the loss ledger.")] = None,
    as_json: AsJson = False,
) -> None:
    """Remove dead letters that nobody will ever need.

    They are kept, whole, in the table discarded_letters until DISCARDED_LETTERS_RETENTION_DAYS have passed. What they held is
    lost: the loss ledger names it, with the person who removed it and the reason.
    """
    import asyncio

    from farmiq.cli import dlq_commands
    from farmiq.cli.dlq_filters import service_of
    from farmiq.cli.dlq_progress import showing_letters

    wanted = _wanted(reason, event_type, tenant, since, until, ids)
    meant = service_of(service, queue, "discard")
    _refuse_haste(meant, wanted, everything=everything, is_confirmed=yes or dry_run)
    asked = dlq_commands.asked_here("discard", meant, wanted, limit=limit, is_dry_run=dry_run, note=why)
    with showing_letters("discarding") as on_progress:
        result = asyncio.run(dlq_commands.discard(_place(as_json=as_json), asked, on_progress))
    _show_result("discarded", asked.queue, result, is_dry_run=dry_run, as_json=as_json)


@dlq.command("actions")
def list_actions(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most, latest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List who replayed and discarded what, and when."""
    import asyncio

    from farmiq.cli.dlq_commands import last_actions
    from farmiq.cli.dlq_tables import show_actions

    found = asyncio.run(last_actions(_place(as_json=as_json), limit))
    if as_json:
        _say_as_data(found)
    else:
        show_actions(found)


def _wanted(
    reason: str | None,
    event_type: str | None,
    tenant: str | None,
    since: str | None,
    until: str | None,
    ids: "Sequence[str] | None",
) -> "Filter":
    from datetime import UTC, datetime

    from farmiq.cli.dlq_filters import filter_of

    now = datetime.now(UTC)
    return filter_of(
        reason=reason, event_type=event_type, tenant=tenant, since=since, until=until, ids=ids or (), now=now
    )


def _refuse_haste(service: str, wanted: "Filter", *, everything: bool, is_confirmed: bool) -> None:
    from farmiq.cli.errors import BadUsage
    from farmiq.cloud.dead_letters.filters import Filter

    if wanted == Filter() and not everything:
        raise BadUsage(
            "which dead letters?",
            why="Without a filter it would be every one of them.",
            fix=f"farmiq dlq discard --service {service} --reason REASON, or --all",
        )
    if not is_confirmed:
        raise BadUsage(
            "nothing was discarded",
            why="What is discarded does not come back by itself.",
            fix="give --dry-run to count them, then --yes",
        )


def _place(*, as_json: bool) -> "Place":
    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.dlq_commands import Place
    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.kit import logging

    logging.configure("CRITICAL" if as_json else "WARNING")
    return Place(find_bus(), find_cloud())


def _show_result(verb: str, queue: str, result: "Result", *, is_dry_run: bool, as_json: bool) -> None:
    from farmiq.cli.dlq_tables import show_result

    if as_json:
        _say_as_data(result)
    else:
        show_result(verb, queue, result, is_dry_run=is_dry_run)


def _say_as_data(value: object) -> None:
    import msgspec

    say_json(msgspec.to_builtins(value))

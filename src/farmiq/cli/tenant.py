from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli import exits
from farmiq.cli.migrate import Tier
from farmiq.cli.terminal import own_name, say, say_json

if TYPE_CHECKING:
    from farmiq.cli.tenant_erasure import Erased, Inventory
    from farmiq.kit.erasure import ErasureRecord

tenant = typer.Typer(
    name="tenant",
    help="Erase what is stored of a tenant, and see what was erased.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

AnyTier = Annotated[Tier | None, typer.Option(help="Only this one. Default: both.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@tenant.command()
def erase(
    tenant_id: Annotated[str, typer.Argument(metavar="TENANT", help="Whose data.")],
    tier: AnyTier = None,
    reason: Annotated[str | None, typer.Option(help="Why. It stays in the record.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase it. Without: only show what there is.")] = False,
    wait_seconds: Annotated[
        float, typer.Option(min=0, help="How long to wait for what is on its way, at each tier.")
    ] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Erase all rows and pictures of a tenant. It can't be undone.

    First its devices are revoked at the edge, or its edges, viewers and bus users in the cloud; then what is on its way is waited
    for; then everything goes, and a record stays of who did it, why, and how much it was. The same command goes on where it was
    cut short. Backups, and what the devices themselves hold, are not touched.

    The edge is DATABASE_URL with MQTT_URL, S3_ENDPOINT and the settings beside it; the cloud is CLOUD_DATABASE_URL with AMQP_URL
    and CLOUD_S3_ENDPOINT; else the farm which runs on this machine. Exit code 1 when something was left.
    """
    import asyncio

    from farmiq.cli.errors import BadUsage
    from farmiq.cli.tenant_erasure import as_data, erase_tenant, look, showing_erased
    from farmiq.kit import logging

    logging.configure("CRITICAL")
    tiers = [tier] if tier else list(Tier)
    if not yes:
        found = [asyncio.run(look(one, tenant_id)) for one in tiers]
        if as_json:
            say_json([as_data(one) for one in found])
        else:
            _show_found(tenant_id, found)
        return
    if not reason or not reason.strip():
        raise BadUsage(
            "--reason is missing",
            why="The record of an erasure says why it was done.",
            fix=f"{own_name()} tenant erase {tenant_id} --reason 'contract ended' --yes",
        )
    erased = []
    for one in tiers:
        with showing_erased(f"{tenant_id} at the {one}") as on_step:
            erased.append(asyncio.run(erase_tenant(one, tenant_id, reason.strip(), wait_seconds, on_step)))
        if not as_json:
            _show_erased(erased[-1])
    if as_json:
        say_json([as_data(one) for one in erased])
    raise typer.Exit(exits.FAILED if any(one.left for one in erased) else exits.OK)


@tenant.command()
def erasures(
    tenant_id: Annotated[str | None, typer.Argument(metavar="[TENANT]", help="Only of this one.")] = None,
    tier: AnyTier = None,
    as_json: AsJson = False,
) -> None:
    """List what was erased, when, by whom and why."""
    import asyncio

    from farmiq.cli.tenant_erasure import as_data, recorded

    found = {one: asyncio.run(recorded(one, tenant_id)) for one in ([tier] if tier else list(Tier))}
    if as_json:
        say_json([as_data(record) | {"tier": str(one)} for one, records in found.items() for record in records])
        return
    for one, records in found.items():
        for record in records:
            say(_record_text(one, record))
    if not any(found.values()):
        say("Nothing was erased.")


def _show_found(tenant_id: str, found: "list[Inventory]") -> None:
    for one in found:
        if not one.is_empty:
            say(f"The {one.tier} has of tenant {tenant_id}:")
            for table, count in one.rows_by_table.items():
                say(f"  {count:>12,} rows in {table}")
            if one.objects:
                say(f"  {one.objects:>12,} objects, {one.object_bytes / 1e6:,.1f} MB")
            if one.names:
                say(f"  {one.names_are}: {', '.join(one.names)}")
        else:
            say(f"The {one.tier} has nothing of tenant {tenant_id}.")
    if not all(one.is_empty for one in found):
        say(f"Nothing was erased. It can't be undone: {own_name()} tenant erase {tenant_id} --reason TEXT --yes")


def _show_erased(erased: "Erased") -> None:
    say(_record_text(erased.tier, erased.record))
    for what in erased.left:
        say(f"  left: {what}")
    for what in erased.notes:
        say(f"  {what}")


def _record_text(tier: str, record: "ErasureRecord") -> str:
    when = f"{record.finished_at:%Y-%m-%d %H:%M:%S}Z" if record.finished_at else "not finished"
    measured = ""
    if record.first_sample_at and record.last_sample_at:
        measured = f", samples of {record.first_sample_at:%Y-%m-%d} to {record.last_sample_at:%Y-%m-%d}"
    return (
        f"{tier}: tenant {record.tenant_id}: {record.rows:,} rows and {record.objects:,} objects were erased{measured}"
        f" ({when}, by {record.erased_by}: {record.reason})"
    )

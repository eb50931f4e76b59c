from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.secret_output import Output, secret_writer
from farmiq.cli.terminal import as_json_text, own_name, say, say_json

if TYPE_CHECKING:
    from farmiq.cloud.viewers import IssuedToken

viewer = typer.Typer(
    name="viewer",
    help="Let people and programs read from the cloud, see them, end their tokens.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Who reads: a person, a program.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@viewer.command()
def add(
    name: Name,
    tenant: Annotated[list[str], typer.Option(help="What it may read. Repeat it for several.")],
    expires_days: Annotated[int | None, typer.Option(min=1, help="When the token ends. Default: never.")] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Make a token that reads some tenants, and print it.

    It is shown this once and kept nowhere. A name may have several: give out the new one, then revoke the old. The database is
    CLOUD_DATABASE_URL (or CLOUD_DATABASE_URL_FILE) when it is set, else that of the farm which runs on this machine.
    """
    import asyncio

    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.cli.token_table import as_data
    from farmiq.cli.viewer_changes import add_viewer

    with secret_writer(output) as write:
        issued = asyncio.run(add_viewer(find_cloud(), name, tenant, expires_days))
        write(as_json_text(as_data(issued.row) | {"token": issued.token}) if as_json else _as_text(issued))


@viewer.command()
def revoke(
    name: Name,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN_ID", help="Only this one, as `farmiq viewer ls` shows it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """End a viewer's tokens, at once and for ever: the next request with one is refused, by every replica."""
    import asyncio

    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.cli.token_table import as_data, live_ids
    from farmiq.cli.viewer_changes import revoke_viewer

    left = asyncio.run(revoke_viewer(find_cloud(), name, token))
    if as_json:
        say_json([as_data(one) for one in left])
        return
    say(f"{name}: {'token ' + token if token else 'every token'} is revoked.")
    if alive := live_ids(left):
        say(f"It still reads with {', '.join(alive)}.")


@viewer.command("ls")
def list_viewers(as_json: AsJson = False) -> None:
    """List the viewers with their tokens, also those that have ended."""
    import asyncio

    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.cli.token_table import as_data, show_tokens
    from farmiq.cli.viewer_changes import all_tokens

    found = asyncio.run(all_tokens(find_cloud()))
    if as_json:
        say_json([as_data(one) for one in found])
    elif found:
        show_tokens("viewer", ((one.viewer, one) for one in found))
    else:
        say(f"No viewer has been added. Add one with: {own_name()} viewer add NAME --tenant TENANT")


def _as_text(issued: "IssuedToken") -> str:
    from farmiq.cli.token_table import moment

    row = issued.row
    end = "" if row.expires_at is None else f", until {moment(row.expires_at)}"
    first = f"{row.viewer} may read {', '.join(row.tenant_ids)}{end}. Its token {row.token_id} is shown this once:"
    header = f'curl -H "Authorization: Bearer $TOKEN" "$URL/api/v1/telemetry/metrics?tenant_id={row.tenant_ids[0]}"'
    return "\n\n".join([first, f"  {issued.token}", f"It goes into a header:\n\n  {header}"])

from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.secret_output import Output, secret_writer
from farmiq.cli.terminal import as_json_text, say, say_json

if TYPE_CHECKING:
    from farmiq.cli.edge_changes import Issued

edge = typer.Typer(
    name="edge",
    help="Let edges deliver to the cloud, see them, change their tokens.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EdgeId = Annotated[str, typer.Argument(metavar="EDGE_ID", help="Its EDGE_CLUSTER_ID.")]
ExpiresDays = Annotated[int | None, typer.Option(min=1, help="When the token ends. Default: never.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@edge.command()
def add(
    edge_id: EdgeId,
    tenant: Annotated[list[str], typer.Option(help="For whom it may deliver. Repeat it for several.")],
    expires_days: ExpiresDays = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Let an edge in, and print what to set on it.

    The token is shown this once and kept nowhere. The database is CLOUD_DATABASE_URL (or CLOUD_DATABASE_URL_FILE) when it is set,
    else that of the farm which runs on this machine.
    """
    import asyncio

    from farmiq.cli.edge_changes import add_edge
    from farmiq.cli.edge_cloud import find_cloud

    with secret_writer(output) as write:
        write(_issued_text(asyncio.run(add_edge(find_cloud(), edge_id, tenant, expires_days)), as_json=as_json))


@edge.command()
def rotate(
    edge_id: EdgeId,
    grace_days: Annotated[int, typer.Option(min=0, help="For how long the old token still works.")] = 7,
    expires_days: ExpiresDays = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Give an edge a new token.

    The old one works until the grace has ended, or until it is revoked: there is time to change it on the edge.
    """
    import asyncio

    from farmiq.cli.edge_changes import rotate_edge
    from farmiq.cli.edge_cloud import find_cloud

    with secret_writer(output) as write:
        issued = asyncio.run(rotate_edge(find_cloud(), edge_id, grace_days, expires_days))
        write(_issued_text(issued, as_json=as_json))


@edge.command()
def revoke(
    edge_id: EdgeId,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN_ID", help="Only this one, as `farmiq edge ls` shows it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """End an edge's tokens, at once and for ever.

    The next request with one is refused, by every replica. The edge keeps what it could not deliver, and delivers it when it has
    a new token: `farmiq edge rotate`, or `farmiq edge add` once all its tokens have ended.
    """
    import asyncio

    from farmiq.cli.edge_changes import revoke_edge
    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.cli.token_table import as_data, live_ids

    left = asyncio.run(revoke_edge(find_cloud(), edge_id, token))
    if as_json:
        say_json([as_data(one) for one in left])
        return
    say(f"{edge_id}: {'token ' + token if token else 'every token'} is revoked.")
    if alive := live_ids(left):
        say(f"It is still let in with {', '.join(alive)}.")


@edge.command()
def grant(
    edge_id: EdgeId,
    tenant: Annotated[str, typer.Option(help="For whom it may deliver from now on.")],
    as_json: AsJson = False,
) -> None:
    """Let an edge deliver for one more tenant.

    What waits at the edge for that tenant goes out by itself. Doing it again changes nothing; each change is recorded.
    """
    _set_grant(edge_id, tenant, is_granted=True, as_json=as_json)


@edge.command()
def ungrant(
    edge_id: EdgeId,
    tenant: Annotated[str, typer.Option(help="For whom it may no longer deliver.")],
    as_json: AsJson = False,
) -> None:
    """Let an edge no longer deliver for a tenant.

    The next request is refused; the edge keeps what it could not deliver. Doing it again changes nothing; each change is
    recorded.
    """
    _set_grant(edge_id, tenant, is_granted=False, as_json=as_json)


def _set_grant(edge_id: str, tenant: str, *, is_granted: bool, as_json: bool) -> None:
    import asyncio

    from farmiq.cli.edge_changes import set_grant
    from farmiq.cli.edge_cloud import find_cloud

    is_changed = asyncio.run(set_grant(find_cloud(), edge_id, tenant, is_granted=is_granted))
    if as_json:
        say_json({"edge_cluster_id": edge_id, "tenant_id": tenant, "is_granted": is_granted, "is_changed": is_changed})
        return
    now = "" if is_changed else "already "
    say(f"{edge_id} {now}may deliver for {tenant}." if is_granted else f"{edge_id} {now}may not deliver for {tenant}.")


@edge.command("ls")
def list_edges(as_json: AsJson = False) -> None:
    """List the edges with their tokens, also those that have ended."""
    import asyncio

    from farmiq.cli.edge_changes import all_tokens
    from farmiq.cli.edge_cloud import find_cloud
    from farmiq.cli.edge_table import show
    from farmiq.cli.token_table import as_data

    found = asyncio.run(all_tokens(find_cloud()))
    if as_json:
        say_json([as_data(one) for one in found])
    else:
        show(found)


def _issued_text(issued: "Issued", *, as_json: bool) -> str:
    from farmiq.cli.edge_paste import as_data, as_text

    return as_json_text(as_data(issued)) if as_json else as_text(issued)

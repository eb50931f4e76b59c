from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.secret_output import Output, secret_writer
from farmiq.cli.terminal import as_json_text, own_name, say, say_json

if TYPE_CHECKING:
    from farmiq.cli.bus_users import IssuedLogin

bus = typer.Typer(
    name="bus",
    help="The cloud's event bus: who may read from it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
user = typer.Typer(
    name="user",
    help="Manage programs that read the events of one tenant from RabbitMQ.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
bus.add_typer(user)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user name at RabbitMQ.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@user.command()
def add(
    name: Name,
    tenant: Annotated[str, typer.Option(help="The tenant whose events the user reads.")],
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Make a login and a queue that receives the events of one tenant.

    The user may read its own queue and nothing else. The password is random and shown this once. The broker is AMQP_URL when it
    is set, with AMQP_MANAGEMENT_URL (https://user:password@host:15671) for its users and CLOUD_DATABASE_URL for the tenant;
    else all three are those of the farm which runs on this machine.
    """
    import asyncio

    from farmiq.cli.bus_users import add_user, logins_of
    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.edge_cloud import find_cloud

    broker = find_bus()
    with secret_writer(output) as write:
        login = asyncio.run(add_user(find_cloud(), broker, logins_of(broker), name, tenant))
        write(as_json_text(login.as_data()) if as_json else _as_text(login))


@user.command()
def revoke(name: Name, as_json: AsJson = False) -> None:
    """Delete a user of the bus, its connections, and its queue with all that is in it."""
    import asyncio

    from farmiq.cli.bus_users import logins_of, revoke_user
    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.edge_cloud import find_cloud

    broker = find_bus()
    asyncio.run(revoke_user(find_cloud(), broker, logins_of(broker), name))
    if as_json:
        say_json({"name": name, "revoked": True})
    else:
        say(f"{name} is deleted, with its connections and its queue.")


@user.command("ls")
def list_users(as_json: AsJson = False) -> None:
    """List the users of the bus, with how many messages wait in the queue of each."""
    import asyncio

    from farmiq.cli.bus_users import list_users, show_users
    from farmiq.cli.cloud_bus import find_bus
    from farmiq.cli.edge_cloud import find_cloud

    users = asyncio.run(list_users(find_cloud(), find_bus()))
    if as_json:
        say_json(users)
    elif users:
        show_users(users)
    else:
        say(f"The bus has no users. Add one with: {own_name()} bus user add NAME --tenant TENANT")


def _as_text(login: "IssuedLogin") -> str:
    lines = [
        f"{login.name} may read the events of {login.tenant_id}. Its password is shown this once:",
        "",
        f"  user      {login.name}",
        f"  password  {login.password}",
        f"  queue     {login.queue}",
        f"  address   {login.amqp_url}",
        "",
        f"The queue has all events of {login.tenant_id} from now on. {own_name()} bus user revoke {login.name} ends it.",
    ]
    return "\n".join(lines)

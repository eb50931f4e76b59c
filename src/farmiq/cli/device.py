from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from farmiq.cli.secret_output import Output, secret_writer
from farmiq.cli.terminal import as_json_text, say, say_json

if TYPE_CHECKING:
    from farmiq.cli.device_edge import Edge
    from farmiq.edge.ingress_gateway.issuing import Issued

device = typer.Typer(
    name="device",
    help="Let devices in, see them, take them out.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Kind(StrEnum):
    NODE = "node"
    WEIGH_STATION = "weigh-station"
    SENSOR = "sensor"


DeviceId = Annotated[str, typer.Argument(metavar="DEVICE_ID", help="Its user name and client id at the broker too.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@device.command()
def add(
    device_id: DeviceId,
    tenant: Annotated[str | None, typer.Option(help="Whose it is. Default: that of the farm which runs here.")] = None,
    farm: Annotated[str | None, typer.Option(help="Default: that of the farm which runs here.")] = None,
    barn: Annotated[str | None, typer.Option(help="Default: that of the farm which runs here.")] = None,
    kind: Annotated[Kind, typer.Option(help="What it is: decides which topics it may write to.")] = Kind.NODE,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Let a device in, and print what to type on it.

    Both secrets are shown this once and kept nowhere, but for the broker login: a farm that runs here keeps it for
    `farmiq send`, in a file of its home that only you can read. The database is DATABASE_URL and the broker MQTT_URL when these
    are set, else those of the farm which runs on this machine.
    """
    import asyncio

    from farmiq.cli.device_changes import add_device
    from farmiq.cli.device_edge import find_edge, origin_of

    edge = find_edge()
    origin = origin_of(edge, device_id, tenant, farm, barn)
    with secret_writer(output) as write:
        write(_issued_text(edge, asyncio.run(add_device(edge, origin, kind)), as_json=as_json))


@device.command()
def rotate(device_id: DeviceId, output: Output = None, as_json: AsJson = False) -> None:
    """Give a device new secrets.

    The old ones stop working at once, and its connection is ended. What it collects meanwhile it sends when it is back.
    """
    import asyncio

    from farmiq.cli.device_changes import rotate_device
    from farmiq.cli.device_edge import find_edge

    edge = find_edge()
    with secret_writer(output) as write:
        write(_issued_text(edge, asyncio.run(rotate_device(edge, device_id)), as_json=as_json))


@device.command()
def revoke(device_id: DeviceId, as_json: AsJson = False) -> None:
    """Take a device out.

    Its connection is ended, its secrets stop working, and what it sends is refused. Its data stays. `farmiq device add` lets it
    back in with new secrets.
    """
    import asyncio

    from farmiq.cli.device_changes import revoke_device
    from farmiq.cli.device_edge import ForeignBroker, find_edge
    from farmiq.cli.device_table import as_data
    from farmiq.edge.ingress_gateway.paste import out_of_the_broker
    from farmiq.stack.device_logins import BrokerOfHome
    from farmiq.stack.device_secrets import forget

    edge = find_edge()
    revoked = asyncio.run(revoke_device(edge, device_id))
    if isinstance(edge.broker, BrokerOfHome):
        forget(edge.broker.home, device_id)
    if as_json:
        say_json(as_data(revoked))
        return
    say(f"{device_id} is out: nothing that it sends is accepted any more. Its data stays.")
    if isinstance(edge.broker, ForeignBroker):
        say(out_of_the_broker(edge.broker.host, edge.broker.port, device_id))


@device.command("ls")
def list_devices(as_json: AsJson = False) -> None:
    """List the devices, with those that were revoked."""
    import asyncio

    from farmiq.cli.device_changes import all_devices
    from farmiq.cli.device_edge import find_edge
    from farmiq.cli.device_liveness import ask_liveness
    from farmiq.cli.device_table import as_listed, show

    edge = find_edge()
    found = asyncio.run(all_devices(edge))
    heard = ask_liveness(edge.environment, (one.tenant_id for one in found))
    if as_json:
        say_json([as_listed(one, heard) for one in found])
    else:
        show(found, heard)


def _issued_text(edge: "Edge", issued: "Issued", *, as_json: bool) -> str:
    from farmiq.cli.device_paste import as_data, as_text

    _keep_login(edge, issued)
    return as_json_text(as_data(issued)) if as_json else as_text(issued)


def _keep_login(edge: "Edge", issued: "Issued") -> None:
    from farmiq.stack.device_logins import BrokerOfHome
    from farmiq.stack.device_secrets import KeptLogin, keep

    if isinstance(edge.broker, BrokerOfHome):
        known = issued.device
        login = KeptLogin(
            tenant_id=known.tenant_id,
            farm_id=known.farm_id,
            barn_id=known.barn_id,
            device_id=known.device_id,
            mqtt_url=issued.mqtt_url,
        )
        keep(edge.broker.home, login)

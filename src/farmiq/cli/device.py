import sys
from datetime import datetime
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
    station_id: Annotated[
        str | None, typer.Option(help="A weigh station's name in topics and pictures. Default: its device id.")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Let a device in, and print what to type on it.

    Both secrets are shown this once and kept nowhere, but for the broker login: a farm that runs here keeps it for
    `farmiq send`, in a file of its home that only you can read. Warns when it is known here that the edge may not deliver for
    the tenant. The database is DATABASE_URL and the broker MQTT_URL when these
    are set, else those of the farm which runs on this machine.
    """
    import asyncio

    from farmiq.cli.device_changes import add_device, missing_grant
    from farmiq.cli.device_edge import find_edge, origin_of
    from farmiq.kit import logging

    logging.configure("CRITICAL")  # the MQTT client logs for services; what matters here is raised

    edge = find_edge()
    origin = origin_of(edge, device_id, tenant, farm, barn)
    grant_command = asyncio.run(missing_grant(edge, origin.tenant_id))
    with secret_writer(output) as write:
        write(_issued_text(edge, asyncio.run(add_device(edge, origin, kind, station_id)), as_json=as_json))
    if grant_command:
        what = f"the cloud takes nothing of tenant {origin.tenant_id} from this edge yet: what {device_id} sends waits here."
        sys.stderr.write(f"warning: {what}\n  fix: {grant_command}\n")


@device.command()
def rotate(device_id: DeviceId, output: Output = None, as_json: AsJson = False) -> None:
    """Give a device new secrets.

    The old ones stop working at once, and its connection is ended. What it collects meanwhile it sends when it is back.
    """
    import asyncio

    from farmiq.cli.device_changes import rotate_device
    from farmiq.cli.device_edge import find_edge
    from farmiq.kit import logging

    logging.configure("CRITICAL")  # the MQTT client logs for services; what matters here is raised

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
    from farmiq.kit import logging
    from farmiq.stack.device_logins import BrokerOfHome
    from farmiq.stack.device_secrets import forget

    logging.configure("CRITICAL")  # as above

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


@device.command()
def move(
    to: Annotated[str, typer.Option(metavar="EDGE_ID", help="The edge that delivers what it sends from now on.")],
    device_id: Annotated[str | None, typer.Argument(metavar="[DEVICE_ID]", help="As the cloud knows it.")] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Every device of the edge that --from names.")] = False,
    from_edge: Annotated[
        str | None, typer.Option("--from", metavar="EDGE_ID", help="With --all: the edge that has them now.")
    ] = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            help="Needed when several tenants have a device of this id. With --all: only this tenant's devices."
        ),
    ] = None,
    backlog_days: Annotated[
        int,
        typer.Option(min=0, max=3650, help="For how long the edge that had it may still deliver what it had before."),
    ] = 30,
    backlog_before: Annotated[
        datetime | None,
        typer.Option(metavar="TIME", help="What occurred before this time, in UTC, is its backlog. Default: now."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --all: do not ask before moving.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a device, or all of an edge, to another edge, in the cloud.

    What the new edge holds of it goes out by itself. The edge that had it may still deliver what occurred before, and finish the
    weigh sessions that it had begun; with `--backlog-days 0` it may not. The same command again changes nothing; each move is
    recorded. `--all --from EDGE_ID` is for an edge whose box was replaced under another id: killed half-way, the same command
    moves the rest. The database is CLOUD_DATABASE_URL (or CLOUD_DATABASE_URL_FILE) when it is set, else that of the farm which
    runs on this machine.
    """
    from datetime import UTC

    from farmiq.cli.errors import BadUsage

    before = None if backlog_before is None else backlog_before.replace(tzinfo=UTC)
    if is_all and from_edge is not None and device_id is None and from_edge != to:
        _move_all(from_edge, to, tenant, backlog_days, before, is_confirmed=yes, as_json=as_json)
    elif device_id is not None and not is_all and from_edge is None:
        _move_one(device_id, to, tenant, backlog_days, before, as_json=as_json)
    else:
        raise BadUsage(
            "which devices?",
            why="It is one device, or all of one edge that go to another one.",
            fix="farmiq device move DEVICE_ID --to EDGE_ID, or farmiq device move --all --from EDGE_ID --to ANOTHER",
        )


def _move_one(
    device_id: str, to: str, tenant: str | None, backlog_days: int, before: datetime | None, *, as_json: bool
) -> None:
    import asyncio

    import msgspec

    from farmiq.cli.edge_changes import move_device
    from farmiq.cli.edge_cloud import find_cloud

    moved = asyncio.run(move_device(find_cloud(), device_id, to, tenant, backlog_days, before))
    if as_json:
        say_json(msgspec.to_builtins(moved))
    elif moved is None:
        say(f"{device_id} belongs to {to} already.")
    else:
        say(f"{device_id} belongs to {to} now.")
        if moved.from_edge is not None and moved.backlog_until > moved.moved_at:
            say(
                f"{moved.from_edge} may deliver what occurred before {moved.backlog_before:%Y-%m-%d %H:%M:%S} UTC,"
                f" until {moved.backlog_until:%Y-%m-%d}."
            )


def _move_all(
    from_edge: str,
    to: str,
    tenant: str | None,
    backlog_days: int,
    before: datetime | None,
    *,
    is_confirmed: bool,
    as_json: bool,
) -> None:
    import asyncio

    from farmiq.cli.edge_changes import count_devices, move_devices
    from farmiq.cli.edge_cloud import find_cloud

    def show(moved: int) -> None:
        sys.stderr.write(f"{moved:,} of {count:,} moved\n")

    cloud = find_cloud()
    count = asyncio.run(count_devices(cloud, from_edge, tenant))
    if count and not is_confirmed:
        typer.confirm(f"Give {count:,} devices of {from_edge} to {to}?", abort=True, err=True)
    moved = asyncio.run(move_devices(cloud, from_edge, to, tenant, backlog_days, before, show))
    if as_json:
        say_json({"from_edge": from_edge, "to_edge": to, "moved": moved})
    else:
        say(f"{moved:,} devices of {from_edge} belong to {to} now.")


@device.command()
def owners(
    device_id: Annotated[str | None, typer.Argument(metavar="[DEVICE_ID]", help="Only this one.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    as_json: AsJson = False,
) -> None:
    """List which edge each device belongs to in the cloud, and which other edges send something of it."""
    import asyncio

    import msgspec

    from farmiq.cli.device_table import show_owners
    from farmiq.cli.edge_changes import device_owners
    from farmiq.cli.edge_cloud import find_cloud

    rows = asyncio.run(device_owners(find_cloud(), device_id, tenant))
    if as_json:
        say_json(msgspec.to_builtins(rows))
    else:
        show_owners(rows)


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

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from farmiq.cli.terminal import say, say_json

if TYPE_CHECKING:
    from farmiq.cli.send_reading import Sent


def send(
    device: Annotated[str, typer.Option(metavar="DEVICE_ID", help="Who speaks: a device that was added.")],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="METRIC=VALUE...", help='As temp=4.2. Without any, a JSON object is read: {"temp": 4.2}.'
        ),
    ] = None,
    unit: Annotated[str, typer.Option(help="Of the value, as C or %.")] = "",
    event_id: Annotated[
        UUID | None, typer.Option(help="Send the same once more: what has this id already is stored once.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to wait for the cloud. 0: not at all.")
    ] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Send a value as a device, and wait until it is stored.

    The login is the one that `farmiq device add` left in this farm's home, or MQTT_URL, TENANT_ID, FARM_ID and BARN_ID as that
    command prints them. Exit code 0: the edge has it on disk and said so. A device has one connection: while its own program is
    connected, this ends that connection.
    """
    import asyncio

    from farmiq.cli.send_login import login_for
    from farmiq.cli.send_reading import send_readings
    from farmiq.cli.send_values import read_values

    readings = read_values(values or [], unit, event_id)
    login, cloud = login_for(device)
    sent = asyncio.run(send_readings(login, readings, cloud if seconds else None, seconds))
    if as_json:
        say_json([as_data(one) for one in sent])
    else:
        for one in sent:
            say(as_text(device, one))


def as_text(device_id: str, sent: "Sent") -> str:
    words = "had it already" if sent.result == "duplicate" else "accepted it"
    first = f"{device_id}: {sent.metric} = {sent.value:g} · the edge {words} after {sent.accepted_seconds:.2f} s"
    if sent.stored_seconds is not None:
        return f"{first} · stored in the cloud after {sent.stored_seconds:.2f} s"
    return f"{first} · safe: on the edge's disk, not in the cloud yet"


def as_data(sent: "Sent") -> dict[str, str | float | None]:
    return {
        "event_id": str(sent.event_id),
        "metric": sent.metric,
        "value": sent.value,
        "result": sent.result,
        "accepted_seconds": sent.accepted_seconds,
        "stored_seconds": sent.stored_seconds,
    }

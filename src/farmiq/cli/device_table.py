"""Devices as a person reads them, and as data."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from farmiq.cli.device_liveness import Liveness, Unknown
from farmiq.cli.terminal import console, own_name, put, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farmiq.cloud.ingestion.device_moves import DeviceOwner
    from farmiq.edge.ingress_gateway.devices import Device


def as_data(device: "Device") -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(device)
    return told


def as_listed(device: "Device", heard: "dict[str, Liveness] | Unknown") -> dict[str, Any]:
    """`online` is null when nobody could be asked; a device that was never heard is offline and has no time."""
    if isinstance(heard, Unknown):
        return as_data(device) | {"online": None, "last_rx_at": None}
    sign = heard.get(device.device_id, Liveness(is_online=False, last_rx_at=None))
    return as_data(device) | {"online": sign.is_online, "last_rx_at": sign.last_rx_at}


def show(devices: "Sequence[Device]", heard: "dict[str, Liveness] | Unknown") -> None:
    from rich.table import Table

    if not devices:
        say(f"No device has been added. Add one with: {own_name()} device add DEVICE_ID")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("device", "kind", "place", "last heard", "added", "secrets of", "revoked"):
        table.add_column(column, no_wrap=column == "device", overflow="fold")
    for device in devices:
        place = f"{device.tenant_id}/{device.farm_id}/{device.barn_id}"
        times = (device.created_at, device.credential_at, device.revoked_at)
        table.add_row(device.device_id, device.kind, place, _heard(device, heard), *map(_moment, times))
    put(console(), table)
    if isinstance(heard, Unknown):
        say(f"When they were last heard is not known: {heard.reason}")


def show_owners(owners: "Sequence[DeviceOwner]") -> None:
    from rich.table import Table

    if not owners:
        say("No edge has registered or delivered such a device.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("device", "tenant", "edge", "by", "since", "held from"):
        table.add_column(column, no_wrap=column == "device", overflow="fold")
    for one in owners:
        held = ", ".join(one.held_edges) or "-"
        by = one.came_by.replace("_", " ")
        table.add_row(one.device_id, one.tenant_id, one.edge_cluster_id, by, _moment(one.since), held)
    put(console(), table)


def _heard(device: "Device", heard: "dict[str, Liveness] | Unknown") -> str:
    if isinstance(heard, Unknown):
        return "?"
    sign = heard.get(device.device_id)
    if sign is None or sign.last_rx_at is None:
        return "never"
    return "online" if sign.is_online else _moment(datetime.fromisoformat(sign.last_rx_at))


def _moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"

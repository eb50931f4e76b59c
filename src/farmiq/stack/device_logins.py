"""Devices as the embedded broker knows them.

The database says which devices there are, and the broker's files are written from it: at every start, and whole at every change.
So a command that was killed half-way, a database restored from a backup and rules of an older version end in the same files."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, login_of
from farmiq.kit.postgres import Connection
from farmiq.stack.home import Home
from farmiq.stack.mosquitto import put_in_force
from farmiq.stack.mosquitto_users import change_logins
from farmiq.stack.state import read_state


class BrokerOfHome(NamedTuple):
    """The broker of a farm that runs from `home`, by the port of its own listener for devices."""

    home: Home
    port: int
    # Where devices come in, when the relay stands before that listener.
    entrance_port: int | None = None

    @property
    def device_port(self) -> int:
        return self.entrance_port or self.port


class Image(NamedTuple):
    """Who the broker should know, and who it should not know any more. It goes on knowing all others."""

    put: list[MqttLogin]
    drop: list[str]


async def apply_register(connection: Connection, broker: BrokerOfHome) -> None:
    """Returns when the running broker lets in whom the database names, and has thrown out whom it does not."""
    image = await _image(connection)
    await put_in_force(_folder(broker), broker.port, lambda: _pid(broker), image.put, image.drop)


async def apply_register_if_changed(connection: Connection, broker: BrokerOfHome) -> bool:
    """The same, and leaves a broker in peace whose files say it already."""
    image = await _image(connection)
    if not await asyncio.to_thread(change_logins, _folder(broker), image.put, image.drop):
        return False
    await put_in_force(_folder(broker), broker.port, lambda: _pid(broker))
    return True


async def _image(connection: Connection) -> Image:
    known = await devices.logins(connection)
    return Image(
        put=[login_of(device, password_hash) for device, password_hash in known if password_hash is not None],
        drop=[device.device_id for device, _ in known if device.revoked_at is not None],
    )


def _folder(broker: BrokerOfHome) -> Path:
    return broker.home.server_folder("mosquitto")


def _pid(broker: BrokerOfHome) -> int | None:
    children = read_state(broker.home).children
    return next((child.pid for child in children if child.name == "mosquitto"), None)

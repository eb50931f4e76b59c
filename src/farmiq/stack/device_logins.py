"""Devices as the embedded broker knows them.

The database says which devices there are: the broker's files are written from it before the broker starts, and the running broker
is brought in line with it at every change. So a command that was killed half-way, a database restored from a backup and rights of
an older version end in the same state."""

from pathlib import Path
from typing import NamedTuple

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.broker_logins import MqttLogin, login_of
from farmiq.kit.postgres import Connection
from farmiq.stack.home import Home
from farmiq.stack.mosquitto import Running, put_in_force
from farmiq.stack.mosquitto_users import change_files, devices_in
from farmiq.stack.secrets import load_or_create
from farmiq.stack.state import read_state


class BrokerOfHome(NamedTuple):
    """The broker of a farm that runs from `home`, by the ports of its own listeners."""

    home: Home
    port: int
    services_port: int
    # Where devices come in, when the relay stands before their listener.
    entrance_port: int | None = None

    @property
    def device_port(self) -> int:
        return self.entrance_port or self.port

    @property
    def pid(self) -> int | None:
        children = read_state(self.home).children
        return next((child.pid for child in children if child.name == "mosquitto"), None)


class Image(NamedTuple):
    """Who the broker should know. `live`: also those whose login is not in the database, but in the farm's own secrets."""

    put: list[MqttLogin]
    live: set[str]
    revoked: set[str]


async def apply_register(connection: Connection, broker: BrokerOfHome) -> bool:
    """Returns when the running broker lets in whom the database names, and has thrown out whom it does not. Answers whether
    that took a change."""
    image = await _image(connection)
    password = load_or_create(broker.home.secrets_file).mqtt_keeper
    running = Running(_folder(broker.home), broker.services_port, password, lambda: broker.pid)
    return await put_in_force(running, image.put, image.revoked, image.live)


async def write_register(connection: Connection, home: Home) -> None:
    """For a broker that is about to start: in one step, however many devices there are."""
    image = await _image(connection)
    folder = _folder(home)
    change_files(folder, image.put, image.revoked | (devices_in(folder) - image.live))


async def _image(connection: Connection) -> Image:
    known = await devices.logins(connection)
    return Image(
        put=[login_of(device, password_hash) for device, password_hash in known if password_hash is not None],
        live={device.device_id for device, _ in known if device.revoked_at is None},
        revoked={device.device_id for device, _ in known if device.revoked_at is not None},
    )


def _folder(home: Home) -> Path:
    return home.server_folder("mosquitto")

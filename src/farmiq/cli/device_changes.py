"""Adding, rotating and revoking: first the database, then the broker.

The database decides: a device that is in it and not at the broker can't connect, and one that was revoked in it is refused
whatever the broker thinks. Killed between the two, the same command, or the next one for any device, brings the broker's
files in line; secrets that nobody has seen are replaced with `rotate`."""

import inspect
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import asyncpg

from farmiq.cli.device_edge import Edge, ForeignBroker
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.contracts.ids import InvalidId
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.devices import Credential, Device
from farmiq.kit.errors import Rejected
from farmiq.kit.logging import mask
from farmiq.kit.postgres import Connection
from farmiq.stack import demo_farm
from farmiq.stack.device_logins import BrokerOfHome, apply_register, login_of
from farmiq.stack.errors import StackError
from farmiq.stack.mosquitto import log_in, mqtt_url
from farmiq.stack.mosquitto_users import MqttLogin, hash_password
from farmiq.timeseries.stream import Origin

# One command at a time changes an edge's devices: the letters "farmiq-d".
LOCK_KEY = int.from_bytes(b"farmiq-d", "big")
_TAKE_TURN = "SELECT pg_advisory_lock($1)"

_NAMES_ALLOWED = (
    "A letter or digit, then up to 63 letters, digits, dots, underscores or hyphens. A device can't be called telemetry, event, "
    "weighvision or status, which are words of our topics, nor operator, edge-..., cloud-... or farmiq-..., which are others who "
    "log in to the broker."
)


@dataclass(frozen=True)
class Issued:
    """A device with secrets that nobody has seen yet."""

    device: Device
    mqtt_url: str = field(repr=False)
    mqtt_password: str = field(repr=False)
    http_token: str = field(repr=False)
    login: MqttLogin
    broker: BrokerOfHome | ForeignBroker


async def add_device(edge: Edge, origin: Origin, kind: str) -> Issued:
    return await _issue(
        edge, origin.device_id, lambda connection, credential: devices.add(connection, origin, kind, credential)
    )


async def rotate_device(edge: Edge, device_id: str) -> Issued:
    return await _issue(
        edge, device_id, lambda connection, credential: devices.rotate(connection, device_id, credential)
    )


async def revoke_device(edge: Edge, device_id: str) -> Device:
    _refuse_own_node(edge, device_id)
    async with _connected(edge) as connection:
        await connection.execute(_TAKE_TURN, LOCK_KEY)
        with _explained(device_id):
            revoked = await devices.revoke(connection, device_id)
        await _tell_broker(connection, edge, again=f"farmiq device revoke {device_id}")
    return revoked


async def all_devices(edge: Edge) -> list[Device]:
    async with _connected(edge) as connection:
        return await devices.everyone(connection)


async def _issue(edge: Edge, device_id: str, change: Callable[[Connection, Credential], Awaitable[Device]]) -> Issued:
    _refuse_own_node(edge, device_id)
    password, token = secrets.token_urlsafe(24), secrets.token_urlsafe(32)
    password_hash = hash_password(password)
    async with _connected(edge) as connection:
        await connection.execute(_TAKE_TURN, LOCK_KEY)
        with _explained(device_id):
            device = await change(connection, Credential(password_hash, token))
        await _tell_broker(connection, edge, again=f"farmiq device rotate {device_id}")
        if isinstance(edge.broker, BrokerOfHome):
            await log_in("127.0.0.1", edge.broker.port, device_id, password, keeps_session=True)
    return Issued(
        device, _url(edge, device_id, password), password, token, login_of(device, password_hash), edge.broker
    )


async def _tell_broker(connection: Connection, edge: Edge, *, again: str) -> None:
    if isinstance(edge.broker, ForeignBroker):
        return
    try:
        await apply_register(connection, edge.broker)
    except StackError as error:
        why = "The database has the change; the broker gets it at its next start, or when you repeat the command."
        raise CommandFailed(str(error), why=why, fix=f"farmiq status, then {again}") from error


def _url(edge: Edge, device_id: str, password: str) -> str:
    if isinstance(edge.broker, BrokerOfHome):
        return mqtt_url(device_id, password, "127.0.0.1", edge.broker.port)
    scheme = "mqtts" if edge.broker.is_tls else "mqtt"
    return mqtt_url(device_id, password, edge.broker.host, edge.broker.port, scheme)


def _refuse_own_node(edge: Edge, device_id: str) -> None:
    if edge.is_of_a_home and device_id == demo_farm.DEVICE_ID:
        raise CommandFailed(
            f"{device_id} is the node that this farm runs itself",
            why="Its password is made with the farm and comes back at each start.",
            fix="farmiq device add another-id",
        )


@contextmanager
def _explained(device_id: str) -> Iterator[None]:
    try:
        yield
    except InvalidId as error:
        raise BadUsage(str(error), why=_NAMES_ALLOWED, fix="choose another name") from error
    except Rejected as error:
        fixes = {
            devices.DeviceKnown: f"farmiq device rotate {device_id} makes new secrets",
            devices.DeviceTaken: "farmiq device ls shows which ids are taken",
            devices.DeviceUnknown: "farmiq device ls shows which there are",
            devices.DeviceRevoked: f"farmiq device add {device_id}, with the place that farmiq device ls shows",
        }
        why = " ".join((inspect.getdoc(type(error)) or "").split())
        raise CommandFailed(str(error), why=why, fix=fixes.get(type(error), "farmiq device ls")) from error


@asynccontextmanager
async def _connected(edge: Edge) -> AsyncIterator[Connection]:
    try:
        connection = await asyncpg.connect(
            edge.database_url, timeout=10, command_timeout=60, server_settings={"application_name": "farmiq-device"}
        )
    except (OSError, ValueError, asyncpg.PostgresError) as error:
        fix = "farmiq status shows whether it runs" if edge.is_of_a_home else "correct DATABASE_URL"
        raise CommandFailed("the edge database can't be used", why=mask(str(error)), fix=fix) from error
    try:
        yield connection
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        what = "the database does not have the tables of this version"
        raise CommandFailed(what, why=str(error), fix="farmiq migrate edge") from error
    finally:
        await connection.close(timeout=5)

"""Adding, rotating and revoking: first the database, then the broker.

The database decides: a device that is in it and not at the broker can't connect, and one that was revoked in it is refused
whatever the broker thinks. Killed between the two, the same command, or the next one for any device, brings the broker's
files in line; secrets that nobody has seen are replaced with `rotate`."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import asyncpg

from farmiq.cli.device_edge import Edge, ForeignBroker
from farmiq.cli.errors import BadUsage, CommandFailed
from farmiq.cloud.ingestion import edges
from farmiq.contracts.ids import InvalidId
from farmiq.edge.alerts import open_commands
from farmiq.edge.ingress_gateway import devices
from farmiq.edge.ingress_gateway.broker_logins import BrokerAddress
from farmiq.edge.ingress_gateway.devices import REGISTER_LOCK_KEY, Credential, Device
from farmiq.edge.ingress_gateway.issuing import Issued, issue
from farmiq.kit.errors import Rejected
from farmiq.kit.logging import mask
from farmiq.kit.postgres import AWAY, Connection, prepare
from farmiq.stack import demo_farm
from farmiq.stack.device_logins import BrokerOfHome, apply_register
from farmiq.stack.errors import StackError
from farmiq.stack.mosquitto import log_in
from farmiq.timeseries.stream import Origin

_TAKE_TURN = "SELECT pg_advisory_lock($1)"

NOT_KNOWN: Final[tuple[type[BaseException], ...]] = (*AWAY, ValueError, asyncpg.PostgresError)
"""The cloud's database is away, its address is none, or it has no tables yet."""

_NAMES_ALLOWED = (
    "A letter or digit, then up to 63 letters, digits, dots, underscores or hyphens. A device can't be called telemetry, event, "
    "weighvision or status, which are words of our topics, nor operator, edge-..., cloud-... or farmiq-..., which are others who "
    "log in to the broker."
)


async def add_device(edge: Edge, origin: Origin, kind: str, station_id: str | None = None) -> Issued:
    return await _issue(
        edge,
        origin.device_id,
        lambda connection, credential: devices.add(connection, origin, kind, credential, station_id),
    )


async def rotate_device(edge: Edge, device_id: str) -> Issued:
    return await _issue(
        edge, device_id, lambda connection, credential: devices.rotate(connection, device_id, credential)
    )


async def revoke_device(edge: Edge, device_id: str) -> Device:
    _refuse_own_device(edge, device_id)
    async with _connected(edge) as connection:
        await connection.execute(_TAKE_TURN, REGISTER_LOCK_KEY)
        with _explained(device_id):
            revoked = await devices.revoke(connection, device_id)
        await _tell_broker(connection, edge, again=f"farmiq device revoke {device_id}")
    return revoked


async def revoke_tenant(edge: Edge, tenant_id: str) -> list[Device]:
    async with _connected(edge) as connection:
        await connection.execute(_TAKE_TURN, REGISTER_LOCK_KEY)
        revoked = await devices.revoke_tenant(connection, tenant_id)
        await _tell_broker(connection, edge, again=f"farmiq tenant erase {tenant_id}")
    return revoked


async def all_devices(edge: Edge) -> list[Device]:
    async with _connected(edge) as connection:
        return await devices.everyone(connection)


async def missing_grant(edge: Edge, tenant_id: str) -> str | None:
    """The command that lets this edge deliver for the tenant, where it is known here that it may not: the cloud has refused it,
    or the cloud's database is on this machine and does not name the tenant."""
    async with _connected(edge) as connection:
        if command := (await open_commands(connection, "tenant_not_granted")).get(tenant_id):
            return command
    cloud_url = edge.environment.get("CLOUD_DATABASE_URL") if edge.is_of_a_home else None
    if not cloud_url or await _may_deliver(cloud_url, tenant_id) is not False:
        return None
    return f"farmiq edge grant {demo_farm.EDGE_CLUSTER_ID} --tenant {tenant_id}"


async def _may_deliver(cloud_url: str, tenant_id: str) -> bool | None:
    """None when it can't be known: the device was added all the same."""
    try:
        connection = await asyncpg.connect(cloud_url, timeout=5, command_timeout=5)
    except NOT_KNOWN:
        return None
    try:
        return await edges.may_deliver(connection, demo_farm.EDGE_CLUSTER_ID, tenant_id)
    except NOT_KNOWN:
        return None
    finally:
        await connection.close(timeout=5)


async def _issue(edge: Edge, device_id: str, change: Callable[[Connection, Credential], Awaitable[Device]]) -> Issued:
    _refuse_own_device(edge, device_id)
    async with _connected(edge) as connection:
        await connection.execute(_TAKE_TURN, REGISTER_LOCK_KEY)
        with _explained(device_id):
            issued = await issue(lambda credential: change(connection, credential), _address(edge))
        await _tell_broker(connection, edge, again=f"farmiq device rotate {device_id}")
        if isinstance(edge.broker, BrokerOfHome):
            await log_in("127.0.0.1", edge.broker.port, device_id, issued.mqtt_password, keeps_session=True)
    return issued


async def _tell_broker(connection: Connection, edge: Edge, *, again: str) -> None:
    if isinstance(edge.broker, ForeignBroker):
        return
    try:
        await apply_register(connection, edge.broker)
    except StackError as error:
        why = "The database has the change; the broker gets it at its next start, or when you repeat the command."
        raise CommandFailed(str(error), why=why, fix=f"farmiq status, then {again}") from error


def _address(edge: Edge) -> BrokerAddress:
    if isinstance(edge.broker, BrokerOfHome):
        return BrokerAddress("127.0.0.1", edge.broker.device_port, is_kept=True)
    return BrokerAddress(edge.broker.host, edge.broker.port, edge.broker.is_tls)


def _refuse_own_device(edge: Edge, device_id: str) -> None:
    own = {demo_farm.DEVICE_ID: "node", demo_farm.STATION_ID: "weigh station"}
    if edge.is_of_a_home and device_id in own:
        raise CommandFailed(
            f"{device_id} is the {own[device_id]} that this farm runs itself",
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
            devices.StationTaken: f"farmiq device add {device_id} --kind weigh-station --station-id ANOTHER",
            devices.NoStation: f"farmiq device add {device_id} --kind weigh-station --station-id STATION",
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
        await prepare(connection)
        yield connection
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError) as error:
        what = "the database does not have the tables of this version"
        raise CommandFailed(what, why=str(error), fix="farmiq migrate edge") from error
    finally:
        await connection.close(timeout=5)

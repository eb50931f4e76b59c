"""Letting devices in and taking them out over HTTP. Whoever keeps the broker hears of each change with its commit."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import post
from litestar.params import JSONBody, PathParameter, QueryParameter

from farmiq.contracts.ids import ID_PATTERN, Id, InvalidId
from farmiq.edge.ingress_gateway import devices, paste
from farmiq.edge.ingress_gateway.broker_logins import BrokerAddress
from farmiq.edge.ingress_gateway.devices import Credential, Device
from farmiq.edge.ingress_gateway.issuing import Issued, issue
from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.kit.errors import Rejected
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.logging import get_logger
from farmiq.kit.mqtt import parse_url
from farmiq.kit.postgres import Connection, Pool
from farmiq.timeseries.asking import asking
from farmiq.timeseries.stream import Origin

log = get_logger(__name__)

Tenant = Annotated[str, QueryParameter(pattern=ID_PATTERN, max_length=64)]
DevicePath = Annotated[str, PathParameter(pattern=ID_PATTERN, max_length=64)]

STATUS_OF = {
    devices.DeviceKnown: 409,
    devices.DeviceTaken: 409,
    devices.DeviceRevoked: 409,
    devices.StationTaken: 409,
    devices.DeviceUnknown: 404,
}


class NewDevice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`kind` decides which topics it may write to: `node`, `sensor`, `weigh-station`, or a word of your own."""

    device_id: Annotated[str, msgspec.Meta(max_length=200)]
    tenant_id: Id
    farm_id: Id
    barn_id: Id
    kind: Id = "node"
    station_id: Id | None = None
    """A weigh station's name in topics and pictures, where it is not its device id."""


class Way(msgspec.Struct, frozen=True):
    """One way to use the secrets, ready to be pasted."""

    title: str
    text: str


class NewSecrets(msgspec.Struct, frozen=True):
    """Shown this once: neither secret is kept. `for_the_broker` is null where the broker's files are kept by FarmIQ."""

    device_id: str
    tenant_id: str
    farm_id: str
    barn_id: str
    kind: str
    mqtt_url: str
    mqtt_username: str
    mqtt_password: str
    http_token: str
    ways: list[Way]
    for_the_broker: str | None

    def __repr__(self) -> str:
        return f"NewSecrets(device_id={self.device_id!r}, ***)"


class RevokedDevice(msgspec.Struct, frozen=True):
    device_id: str
    revoked_at: datetime | None
    for_the_broker: str | None


def device_routes(pool: Pool, settings: GatewaySettings) -> list[Any]:
    guards = [require_bearer(settings.admin_token)]
    broker = broker_address(settings)

    @post("/api/v1/devices", guards=guards, tags=["devices"], status_code=201)
    async def add(data: JSONBody[NewDevice]) -> NewSecrets:
        """Let a device in. Its secrets are in the answer and nowhere else."""
        origin = Origin(data.tenant_id, data.farm_id, data.barn_id, data.device_id)
        _refuse_fixed(settings, data.device_id)

        async def change(connection: Connection, credential: Credential) -> Device:
            return await devices.add(connection, origin, data.kind, credential, data.station_id)

        issued = await _issue(pool, broker, change)
        log.info("device_added", device_id=data.device_id, tenant_id=data.tenant_id, kind=data.kind)
        return _told(issued)

    @post("/api/v1/devices/{device_id:str}/rotate", guards=guards, tags=["devices"], status_code=200)
    async def rotate(device_id: DevicePath, tenant_id: Tenant) -> NewSecrets:
        """New secrets for a device of this tenant. The old ones stop working, and its connection is ended."""
        _refuse_fixed(settings, device_id)

        async def change(connection: Connection, credential: Credential) -> Device:
            await _require_own(connection, tenant_id, device_id)
            return await devices.rotate(connection, device_id, credential)

        issued = await _issue(pool, broker, change)
        log.info("device_rotated", device_id=device_id, tenant_id=tenant_id)
        return _told(issued)

    @post("/api/v1/devices/{device_id:str}/revoke", guards=guards, tags=["devices"], status_code=200)
    async def revoke(device_id: DevicePath, tenant_id: Tenant) -> RevokedDevice:
        """Take a device of this tenant out: nothing that it sends is accepted any more. Its data stays."""
        _refuse_fixed(settings, device_id)
        async with asking(pool) as connection, connection.transaction():
            try:
                await _require_own(connection, tenant_id, device_id)
                revoked = await devices.revoke(connection, device_id)
            except Rejected as error:
                raise explained(error) from error
        log.info("device_revoked", device_id=device_id, tenant_id=tenant_id)
        told = None if broker.is_kept else paste.out_of_the_broker(broker.host, broker.port, device_id)
        return RevokedDevice(device_id, revoked.revoked_at, told)

    return [add, rotate, revoke]


def broker_address(settings: GatewaySettings) -> BrokerAddress:
    """Where devices log in: not always where this service does."""
    address = parse_url(settings.mqtt_device_url or settings.mqtt_url)
    return BrokerAddress(address.host, address.port, address.is_tls, settings.broker_logins_kept)


def ways_of(issued: Issued) -> list[Way]:
    """The one for its kind first."""
    ways = [
        Way("Python", paste.python(issued)),
        Way("Shell", paste.shell(issued)),
        Way("Environment", paste.environment(issued)),
    ]
    match issued.device.kind:
        case "node":
            return [Way("farmiq node", paste.node(issued)), *ways]
        case "weigh-station":
            return [Way("farmiq weigh station", paste.weigh_station(issued)), *ways]
    return ways


def explained(error: Rejected | InvalidId) -> ApiError:
    if isinstance(error, InvalidId):
        return ApiError(422, "invalid_id", str(error))
    return ApiError(STATUS_OF.get(type(error), 422), error.code, str(error))


async def _issue(
    pool: Pool, broker: BrokerAddress, change: Callable[[Connection, Credential], Awaitable[Device]]
) -> Issued:
    async with asking(pool) as connection, connection.transaction():
        try:
            return await issue(lambda credential: change(connection, credential), broker)
        except (Rejected, InvalidId) as error:
            raise explained(error) from error


def _told(issued: Issued) -> NewSecrets:
    device = issued.device
    return NewSecrets(
        device_id=device.device_id,
        tenant_id=device.tenant_id,
        farm_id=device.farm_id,
        barn_id=device.barn_id,
        kind=device.kind,
        mqtt_url=issued.mqtt_url,
        mqtt_username=device.device_id,
        mqtt_password=issued.mqtt_password,
        http_token=issued.http_token,
        ways=ways_of(issued),
        for_the_broker=None if issued.broker.is_kept else paste.for_the_broker(issued),
    )


async def _require_own(connection: Connection, tenant_id: str, device_id: str) -> None:
    """A device of another tenant is as unknown as one that never was."""
    if (await devices.find(connection, device_id)).tenant_id != tenant_id:
        raise devices.DeviceUnknown(f"there is no device {device_id[:80]}")


def _refuse_fixed(settings: GatewaySettings, device_id: str) -> None:
    if device_id in settings.fixed_devices:
        raise ApiError(409, "device_fixed", f"{device_id} is run by this farm itself, which makes its secrets")

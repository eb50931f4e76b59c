"""Who may speak on this edge, and what each proves itself with. The other services of the edge ask here.

A device has two secrets: a password for the broker, and a token for HTTP. Neither is kept, only what it takes to recognise it."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import asyncpg
from msgspec import Struct

from farmiq import outbox
from farmiq.contracts import event_types
from farmiq.contracts.ids import InvalidId, check_device_id, check_id
from farmiq.kit.errors import Rejected
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Connection
from farmiq.timeseries.stream import Origin

# One change of the register at a time is carried to the broker: the letters "farmiq-d".
REGISTER_LOCK_KEY: Final = int.from_bytes(b"farmiq-d", "big")
CHANNEL: Final = "farmiq_devices"
"""Whoever keeps a broker's files in line listens here. Told with the commit of each change."""

REGISTRATION_PRIORITY: Final = 100
WEIGH_STATION: Final = "weigh-station"
TRIAL_KIND: Final = "farmiq-doctor"
"""Of the login with which `farmiq doctor` tries the broker, and how its name begins."""

# A device's id is its user name and client id at the broker, where services and people log in too.
RESERVED_PREFIXES: Final = ("edge-", "cloud-", "farmiq-")
RESERVED_NAMES: Final = frozenset({"operator"})

_REGISTER = """
    INSERT INTO devices (device_id, tenant_id, farm_id, barn_id, kind) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (device_id) DO NOTHING
    RETURNING *
"""
_KNOWN = """
    SELECT tenant_id, farm_id, barn_id, device_id FROM devices WHERE device_id = ANY($1::text[]) AND revoked_at IS NULL
"""
_ADD = """
    INSERT INTO devices AS known
           (device_id, tenant_id, farm_id, barn_id, kind, mqtt_password_hash, http_token_hash, station_id, credential_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now())
    ON CONFLICT (device_id) DO UPDATE
       SET kind = excluded.kind, station_id = excluded.station_id, mqtt_password_hash = excluded.mqtt_password_hash,
           http_token_hash = excluded.http_token_hash, credential_at = excluded.credential_at, revoked_at = NULL
     WHERE (known.tenant_id, known.farm_id, known.barn_id) = (excluded.tenant_id, excluded.farm_id, excluded.barn_id)
       AND (known.credential_at IS NULL OR known.revoked_at IS NOT NULL)
    RETURNING *, pg_notify('farmiq_devices', '')
"""
_ROTATE = """
    UPDATE devices SET mqtt_password_hash = $2, http_token_hash = $3, credential_at = now()
     WHERE device_id = $1 AND revoked_at IS NULL
    RETURNING *, pg_notify('farmiq_devices', '')
"""
# What was given up stays given up: should anybody clear revoked_at by hand, the old secrets open nothing.
_REVOKE = """
    UPDATE devices SET revoked_at = coalesce(revoked_at, now()), mqtt_password_hash = NULL, http_token_hash = NULL
     WHERE device_id = $1
    RETURNING *, pg_notify('farmiq_devices', '')
"""
_REVOKE_TENANT = """
    UPDATE devices SET revoked_at = now(), mqtt_password_hash = NULL, http_token_hash = NULL
     WHERE tenant_id = $1 AND revoked_at IS NULL
    RETURNING pg_notify('farmiq_devices', '')
"""
_OF_TENANT = "SELECT * FROM devices WHERE tenant_id = $1 ORDER BY device_id"
# Not through `_ADD`: a login that lives for seconds is nobody's device, and nothing else is to follow from it.
_ADD_TRIAL = """
    INSERT INTO devices (device_id, tenant_id, farm_id, barn_id, kind, mqtt_password_hash, credential_at)
    VALUES ($1, 'farmiq', 'doctor', 'doctor', $2, $3, now())
"""
_END_TRIALS = """
    UPDATE devices SET revoked_at = now(), mqtt_password_hash = NULL WHERE kind = $1
    RETURNING device_id, pg_notify('farmiq_devices', '')
"""
_FORGET_TRIALS = "DELETE FROM devices WHERE kind = $1 AND revoked_at IS NOT NULL"
_ONE = "SELECT * FROM devices WHERE device_id = $1"
_TAKE_TURN = "SELECT pg_advisory_xact_lock($1)"
# A refusal is answered under the name in the topic: a station's name must not be the name of another device.
_NAME_TAKEN = """
    SELECT EXISTS (SELECT FROM devices WHERE device_id <> $1 AND (station_id = $1 OR device_id = $2))
"""
_STATION = """
    SELECT coalesce(station_id, device_id) FROM devices
     WHERE (tenant_id, farm_id, barn_id, device_id) = ($1, $2, $3, $4) AND revoked_at IS NULL
"""
_ALL = "SELECT * FROM devices ORDER BY tenant_id, farm_id, barn_id, device_id"
_REGISTERED = """
    SELECT count(*) FILTER (WHERE revoked_at IS NULL) AS count,
           coalesce(array_agg(device_id) FILTER (WHERE revoked_at IS NOT NULL), '{}') AS revoked_ids
      FROM devices WHERE $1::text IS NULL OR tenant_id = $1
"""
_HOLDER = "SELECT * FROM devices WHERE http_token_hash = $1 AND revoked_at IS NULL"
IS_HOLDER: Final = """
    EXISTS (SELECT FROM devices WHERE http_token_hash = {hash} AND revoked_at IS NULL
               AND (tenant_id, farm_id, barn_id, device_id) = ({tenant_id}, {farm_id}, {barn_id}, {device_id}))
"""
"""For a statement of another owner that may do nothing unless this very device holds the token: asking and doing are one."""


class DeviceTaken(Rejected):
    """The device id is in use elsewhere on this edge, or revoked. Choose another id."""

    code = "device_taken"


class DeviceKnown(Rejected):
    """The device is registered here and has its secrets. They are shown once, when they are made; new ones replace them."""

    code = "device_known"


class StationTaken(Rejected):
    """The station id is in use in this barn. Choose another one."""

    code = "station_taken"


class NoStation(Rejected):
    """Only a weigh station has a station id."""

    code = "no_station"


class DeviceUnknown(Rejected):
    """No device of this id was ever registered on this edge."""

    code = "device_unknown"


class DeviceRevoked(Rejected):
    """The device was taken out. Adding it again lets it back in with new secrets."""

    code = "device_revoked"


class Device(Struct, frozen=True):
    device_id: str
    tenant_id: str
    farm_id: str
    barn_id: str
    kind: str
    created_at: datetime
    credential_at: datetime | None
    revoked_at: datetime | None
    station_id: str | None = None

    @property
    def station(self) -> str:
        """A weigh station's name in topics and pictures."""
        return self.station_id or self.device_id

    @property
    def origin(self) -> Origin:
        return Origin(self.tenant_id, self.farm_id, self.barn_id, self.device_id)


class DeviceRegistered(Struct, frozen=True, omit_defaults=True):
    """The payload of `edge.device.registered`."""

    kind: str
    station_id: str | None = None


class Registered(Struct, frozen=True):
    """How many devices may speak, and which ones may not any more."""

    count: int
    revoked_ids: list[str]


class Credential(Struct, frozen=True):
    """`mqtt_password_hash` is in the form of Mosquitto's password file."""

    mqtt_password_hash: str
    http_token: str

    def __repr__(self) -> str:
        return "Credential(***)"


async def register(
    connection: Connection, *, tenant_id: str, farm_id: str, barn_id: str, device_id: str, kind: str
) -> None:
    """Provision a device. Doing it again changes nothing; another place for the same id is refused."""
    origin = Origin(tenant_id, farm_id, barn_id, device_id)
    _check(origin)
    async with connection.transaction():
        row = await connection.fetchrow(_REGISTER, device_id, tenant_id, farm_id, barn_id, kind)
        if row is not None:
            await _announce(connection, _device(row))
    if origin not in await provisioned(connection, [device_id]):
        raise DeviceTaken(f"device {device_id} is registered elsewhere or revoked; choose another id")


async def provisioned(connection: Connection, device_ids: Sequence[str]) -> set[Origin]:
    """Where these devices may speak from."""
    return {Origin(*row) for row in await connection.fetch(_KNOWN, device_ids)}


async def add(
    connection: Connection, origin: Origin, kind: str, credential: Credential, station_id: str | None = None
) -> Device:
    """Provision a device with its secrets: a new one, one that has none yet, or one that was revoked at the same place."""
    _check(origin)
    if station_id is not None:
        check_device_id(check_id("station_id", station_id))
        if kind != WEIGH_STATION:
            raise NoStation(f"{origin.device_id} is a {kind}, and has no station id")
    try:
        async with connection.transaction():
            await connection.execute(_TAKE_TURN, REGISTER_LOCK_KEY)
            if await connection.fetchval(_NAME_TAKEN, origin.device_id, station_id):
                raise StationTaken(f"{station_id or origin.device_id} is the name of another device or station")
            row = await connection.fetchrow(
                _ADD,
                origin.device_id,
                origin.tenant_id,
                origin.farm_id,
                origin.barn_id,
                kind,
                credential.mqtt_password_hash,
                hash_of(credential.http_token),
                station_id,
            )
            if row is not None:
                await _announce(connection, _device(row))
                return _device(row)
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name != "devices_station":
            raise
        raise StationTaken(f"{origin.barn_id} has a station {station_id or origin.device_id} already") from error
    known = await find(connection, origin.device_id)
    place = f"{known.tenant_id}/{known.farm_id}/{known.barn_id}"
    if known.origin == origin:
        raise DeviceKnown(f"device {known.device_id} has been added to {place} already")
    raise DeviceTaken(f"device {known.device_id} belongs to {place}; choose another id")


async def rotate(connection: Connection, device_id: str, credential: Credential) -> Device:
    """Replace a device's secrets. The old token opens nothing from the commit on."""
    row = await connection.fetchrow(_ROTATE, device_id, credential.mqtt_password_hash, hash_of(credential.http_token))
    if row is not None:
        return _device(row)
    await find(connection, device_id)
    raise DeviceRevoked(f"device {device_id} was revoked")


async def revoke(connection: Connection, device_id: str) -> Device:
    """Take a device out: from the commit on nothing it sends is accepted. Doing it again changes nothing."""
    row = await connection.fetchrow(_REVOKE, device_id)
    if row is None:
        raise DeviceUnknown(f"there is no device {device_id[:80]}")
    return _device(row)


async def revoke_tenant(connection: Connection, tenant_id: str) -> list[Device]:
    """Take all of a tenant's devices out. Answers with them, and with those that were revoked before."""
    await connection.execute(_REVOKE_TENANT, tenant_id)
    return [_device(row) for row in await connection.fetch(_OF_TENANT, tenant_id)]


async def find(connection: Connection, device_id: str) -> Device:
    row = await connection.fetchrow(_ONE, device_id)
    if row is None:
        raise DeviceUnknown(f"there is no device {device_id[:80]}")
    return _device(row)


async def station_of(connection: Connection, origin: Origin) -> str | None:
    """The name under which this device weighs; None when it is not registered there."""
    station: str | None = await connection.fetchval(
        _STATION, origin.tenant_id, origin.farm_id, origin.barn_id, origin.device_id
    )
    return station


async def everyone(connection: Connection) -> list[Device]:
    return [_device(row) for row in await connection.fetch(_ALL)]


async def registered(connection: Connection, tenant_id: str | None = None) -> Registered:
    """Of one tenant, or of all."""
    row = await connection.fetchrow(_REGISTERED, tenant_id)
    assert row is not None  # noqa: S101 - an aggregate always has its one row
    return Registered(row["count"], row["revoked_ids"])


async def logins(connection: Connection) -> list[tuple[Device, str | None]]:
    """Every device with the hash of its password for the broker, if it has one."""
    return [(_device(row), row["mqtt_password_hash"]) for row in await connection.fetch(_ALL)]


async def holder_of(connection: Connection, http_token: str) -> Device | None:
    """The device with this token, unless it was revoked. Looking a hash up tells an attacker nothing by the time it takes."""
    row = await connection.fetchrow(_HOLDER, hash_of(http_token))
    return None if row is None else _device(row)


async def _announce(connection: Connection, device: Device) -> None:
    """The cloud learns whose device it is, ahead of everything that the device sends."""
    event = outbox.Event(
        id=new_id(),
        tenant_id=device.tenant_id,
        farm_id=device.farm_id,
        barn_id=device.barn_id,
        device_id=device.device_id,
        event_type=event_types.DEVICE_REGISTERED,
        occurred_at=device.credential_at or device.created_at,
        payload=DeviceRegistered(device.kind, device.station_id),
        priority=REGISTRATION_PRIORITY,
    )
    await outbox.append(connection, [event])


async def add_trial(connection: Connection, device_id: str, mqtt_password_hash: str) -> None:
    """A login for the broker alone. What is sent with it is refused, as its tenant is nobody's."""
    await connection.execute(_ADD_TRIAL, device_id, TRIAL_KIND, mqtt_password_hash)


async def end_trials(connection: Connection) -> int:
    """Takes out every login of a trial, also of one that was killed. `forget_trials` once the broker knows."""
    return len(await connection.fetch(_END_TRIALS, TRIAL_KIND))


async def forget_trials(connection: Connection) -> None:
    await connection.execute(_FORGET_TRIALS, TRIAL_KIND)


def _check(origin: Origin) -> None:
    for name, value in (("tenant_id", origin.tenant_id), ("farm_id", origin.farm_id), ("barn_id", origin.barn_id)):
        check_id(name, value)
    check_device_id(origin.device_id)
    if origin.device_id in RESERVED_NAMES or origin.device_id.startswith(RESERVED_PREFIXES):
        raise InvalidId("device_id", origin.device_id)


def _device(row: asyncpg.Record) -> Device:
    return Device(*(row[name] for name in Device.__struct_fields__))


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

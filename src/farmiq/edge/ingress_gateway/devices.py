"""Who may speak on this edge."""

from collections.abc import Sequence

from farmiq.contracts.ids import check_device_id, check_id
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection
from farmiq.timeseries.stream import Origin

_REGISTER = """
    INSERT INTO devices (device_id, tenant_id, farm_id, barn_id, kind) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (device_id) DO NOTHING
"""
_KNOWN = """
    SELECT tenant_id, farm_id, barn_id, device_id FROM devices WHERE device_id = ANY($1::text[]) AND revoked_at IS NULL
"""


class DeviceTaken(Rejected):
    """The device id is in use elsewhere on this edge, or revoked. Choose another id."""

    code = "device_taken"


async def register(
    connection: Connection, *, tenant_id: str, farm_id: str, barn_id: str, device_id: str, kind: str
) -> None:
    """Provision a device. Doing it again changes nothing; another place for the same id is refused."""
    for name, value in (("tenant_id", tenant_id), ("farm_id", farm_id), ("barn_id", barn_id)):
        check_id(name, value)
    check_device_id(device_id)
    await connection.execute(_REGISTER, device_id, tenant_id, farm_id, barn_id, kind)
    if Origin(tenant_id, farm_id, barn_id, device_id) not in await provisioned(connection, [device_id]):
        raise DeviceTaken(f"device {device_id} is registered elsewhere or revoked; choose another id")


async def provisioned(connection: Connection, device_ids: Sequence[str]) -> set[Origin]:
    """Where these devices may speak from."""
    return {Origin(*row) for row in await connection.fetch(_KNOWN, device_ids)}

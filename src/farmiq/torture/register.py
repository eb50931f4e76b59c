"""Changes the edge's register of devices under devices that are running, and puts it back."""

import asyncio
from typing import Final

from farmiq.torture.farm import Farm
from farmiq.torture.plan import Fault

_READ: Final = "SELECT to_jsonb(devices)::text AS device FROM devices WHERE device_id = $1"
_CHANGES: Final = (
    "DELETE FROM devices WHERE device_id = $1",
    "UPDATE devices SET revoked_at = now() WHERE device_id = $1",
    "UPDATE devices SET barn_id = 'another-barn' WHERE device_id = $1",
    "UPDATE devices SET tenant_id = 'another-tenant' WHERE device_id = $1",
)
_PUT_BACK: Final = """
    INSERT INTO devices SELECT (jsonb_populate_record(NULL::devices, $1::jsonb)).*
    ON CONFLICT (device_id) DO UPDATE
       SET revoked_at = excluded.revoked_at, barn_id = excluded.barn_id, tenant_id = excluded.tenant_id
"""


class Register:
    """What it has taken out is remembered here, so that no fault of the database in between leaves it out for good."""

    def __init__(self, farm: Farm) -> None:
        self._farm = farm
        self._taken_out: dict[str, str] = {}

    async def take_out(self, fault: Fault) -> bool:
        """Deleted, revoked, or registered elsewhere: by the fault's number, so that the plan decides."""
        rows = await self._farm.fetch_patiently("edge", _READ, fault.target)
        if not rows:
            return False
        self._taken_out[fault.target] = rows[0]["device"]
        try:
            change = _CHANGES[fault.number % len(_CHANGES)]
            await self._farm.fetch_patiently("edge", change, fault.target)
            await asyncio.sleep(fault.seconds)
        finally:
            await self._put_back(fault.target)
        return True

    async def put_back_all(self) -> None:
        for device in list(self._taken_out):
            await self._put_back(device)

    async def _put_back(self, device: str) -> None:
        if device in self._taken_out:
            await self._farm.fetch_patiently("edge", _PUT_BACK, self._taken_out[device])
            self._taken_out.pop(device)

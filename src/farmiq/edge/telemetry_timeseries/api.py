from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import PathParameter, QueryParameter

from farmiq.contracts.ids import ID_PATTERN
from farmiq.edge.telemetry_timeseries.devices import DeviceView, Timeouts, find_device, list_devices
from farmiq.edge.telemetry_timeseries.settings import TelemetrySettings
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import Pool
from farmiq.timeseries.asking import asking
from farmiq.timeseries.parameters import AnyDevice, Tenant

DeviceLimit = Annotated[int, QueryParameter(ge=1, le=1000)]
DevicePath = Annotated[str, PathParameter(pattern=ID_PATTERN, max_length=64)]


class DevicePage(msgspec.Struct, frozen=True):
    """`next` continues after the last device, given as `after`; it is null on the last page."""

    devices: list[DeviceView]
    next: str | None


def device_routes(pool: Pool, settings: TelemetrySettings, clock: Clock) -> list[Any]:
    guards = [require_bearer(settings.admin_token)]
    timeouts = Timeouts(timedelta(seconds=settings.online_timeout), timedelta(seconds=settings.freshness_timeout))

    @get("/api/v1/devices", guards=guards, tags=["devices"])
    async def devices(tenant_id: Tenant, after: AnyDevice = None, limit: DeviceLimit = 100) -> DevicePage:
        """Every device that was ever heard: whether it is there, how new its data is, and how far it is safe."""
        async with asking(pool) as connection:
            found = await list_devices(
                connection, tenant_id=tenant_id, after=after or "", limit=limit, now=clock.now(), timeouts=timeouts
            )
        return DevicePage(found, found[-1].device_id if len(found) == limit else None)

    @get("/api/v1/devices/{device_id:str}", guards=guards, tags=["devices"])
    async def device(device_id: DevicePath, tenant_id: Tenant) -> DeviceView:
        """One device."""
        async with asking(pool) as connection:
            found = await find_device(
                connection, tenant_id=tenant_id, device_id=device_id, now=clock.now(), timeouts=timeouts
            )
        if found is None:
            raise ApiError(404, "unknown_device", f"This tenant has no device {device_id} that was ever heard")
        return found

    return [devices, device]

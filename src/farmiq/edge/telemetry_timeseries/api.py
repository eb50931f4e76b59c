from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import FromQuery, PathParameter, QueryParameter

from farmiq.contracts.ids import ID_PATTERN
from farmiq.edge.telemetry_timeseries.devices import (
    DeviceCounts,
    DeviceView,
    Timeouts,
    Wanted,
    count_devices,
    devices_of,
    list_devices,
)
from farmiq.edge.telemetry_timeseries.liveness import State
from farmiq.edge.telemetry_timeseries.settings import TelemetrySettings
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.parameters import AnyDevice, SomeDevices, Tenant, checked_ids

DeviceLimit = Annotated[int, QueryParameter(ge=1, le=1000)]
PartOfName = Annotated[
    str | None, QueryParameter(pattern=r"^[A-Za-z0-9._-]{1,64}$(?!\n)", max_length=64, description="A part of the name")
]
DevicePath = Annotated[str, PathParameter(pattern=ID_PATTERN, max_length=64)]


class DevicePage(msgspec.Struct, frozen=True):
    """`next` continues after the last device, given as `after`; it is null on the last page."""

    devices: list[DeviceView]
    next: str | None


def device_routes(pool: Pool, settings: TelemetrySettings, clock: Clock) -> list[Any]:
    guards = [require_bearer(settings.admin_token)]
    timeouts = Timeouts(timedelta(seconds=settings.online_timeout), timedelta(seconds=settings.freshness_timeout))

    @get("/api/v1/devices", guards=guards, tags=["devices"])
    async def devices(
        tenant_id: Tenant,
        q: PartOfName = None,
        status: FromQuery[State | None] = None,
        device_ids: SomeDevices = None,
        after: AnyDevice = None,
        limit: DeviceLimit = 100,
    ) -> DevicePage:
        """Every device of the tenant, also those that were never heard: whether it is there, how new its data is, and how far it
        is safe. `q` is a part of the name; with `device_ids` just those."""
        some = checked_ids(device_ids)
        wanted = Wanted(tenant_id, q, status, after or "", limit)
        async with read_as(pool, tenant_id) as connection:
            if some is not None:
                return DevicePage(await devices_of(connection, tenant_id, some, clock.now(), timeouts), None)
            found = await list_devices(connection, wanted, clock.now(), timeouts)
        return DevicePage(found, found[-1].device_id if len(found) == limit else None)

    @get("/api/v1/devices/{device_id:str}", guards=guards, tags=["devices"])
    async def device(device_id: DevicePath, tenant_id: Tenant) -> DeviceView:
        """One device."""
        async with read_as(pool, tenant_id) as connection:
            found = await devices_of(connection, tenant_id, [device_id], clock.now(), timeouts)
        if not found:
            raise ApiError(404, "unknown_device", f"This tenant has no device {device_id}")
        return found[0]

    @get("/api/v1/device-counts", guards=guards, tags=["devices"])
    async def counts(tenant_id: Tenant) -> DeviceCounts:
        """How many devices there are, and how many of them are there."""
        async with read_as(pool, tenant_id) as connection:
            return await count_devices(connection, tenant_id, clock.now(), timeouts)

    return [devices, device, counts]

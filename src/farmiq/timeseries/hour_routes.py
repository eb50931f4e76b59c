"""Is anything missing, and when? Each device hour by hour or day by day, and each in one line."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import FromQuery, QueryParameter

from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import hours
from farmiq.timeseries.device_totals import DeviceTotals, device_totals
from farmiq.timeseries.hours import HourRow, Undated
from farmiq.timeseries.parameters import AnyDevice, From, SomeDevices, Tenant, To, checked_ids, refused, time_range

RANGE_MAX = timedelta(days=31)
RANGE_MAX_OF_DAYS = timedelta(days=366)
DeviceLimit = Annotated[int, QueryParameter(ge=1, le=100)]
TotalsLimit = Annotated[int, QueryParameter(ge=1, le=20_000)]


class CoveragePage(msgspec.Struct, frozen=True):
    """`next` continues after the last device, given as `after`; it is null on the last page."""

    hours: list[HourRow]
    undated: list[Undated]
    next: str | None


class TotalsPage(msgspec.Struct, frozen=True):
    devices: list[DeviceTotals]
    next: str | None


def hour_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/coverage", guards=guards, tags=["streams"])
    async def coverage(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        device_ids: SomeDevices = None,
        window: FromQuery[hours.Step] = "1h",
        since: From = None,
        until: To = None,
        after: AnyDevice = None,
        limit: DeviceLimit = 20,
    ) -> CoveragePage:
        """For each device and hour: samples stored, declared lost, and missing, of at most 31 days; or days (`window=1d`), of at
        most a year.

        What is not stored has no time of its own and is shared out over the hours between its neighbours; what has no
        neighbours with a time is `undated`. Without `device_id` and `device_ids`: of `limit` devices, and `next` goes on with
        the others.
        """
        lower, upper = time_range(since, until)
        longest = RANGE_MAX if window == "1h" else RANGE_MAX_OF_DAYS
        if upper - lower > longest:
            raise refused(f"At most {longest.days} days at once")
        named = [device_id] if device_id is not None else checked_ids(device_ids)
        async with read_as(pool, tenant_id) as connection:
            shown = named or await hours.devices(connection, tenant_id=tenant_id, after=after or "", limit=limit)
            found = await hours.hours(
                connection, tenant_id=tenant_id, device_ids=shown, since=lower, until=upper, step=window
            )
        is_last = named is not None or len(shown) < limit
        return CoveragePage(found.hours, found.undated, None if is_last else shown[-1])

    @get("/api/v1/coverage/devices", guards=guards, tags=["streams"])
    async def totals(tenant_id: Tenant, after: AnyDevice = None, limit: TotalsLimit = 1000) -> TotalsPage:
        """For each device that numbers its samples: how many are stored, declared lost, and missing, since it was first heard."""
        async with read_as(pool, tenant_id) as connection:
            rows = await device_totals(connection, tenant_id=tenant_id, after=after or "", limit=limit)
        return TotalsPage(rows, rows[-1].device_id if len(rows) == limit else None)

    return [coverage, totals]

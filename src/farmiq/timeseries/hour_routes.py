"""Is anything missing, and when? Each device hour by hour."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import QueryParameter

from farmiq.kit.postgres import Pool
from farmiq.timeseries import hours
from farmiq.timeseries.asking import asking
from farmiq.timeseries.hours import HourRow, Undated
from farmiq.timeseries.parameters import AnyDevice, From, Tenant, To, refused, time_range

RANGE_MAX = timedelta(days=31)
DeviceLimit = Annotated[int, QueryParameter(ge=1, le=100)]


class CoveragePage(msgspec.Struct, frozen=True):
    """`next` continues after the last device, given as `after`; it is null on the last page."""

    hours: list[HourRow]
    undated: list[Undated]
    next: str | None


def hour_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/coverage", guards=guards, tags=["streams"])
    async def coverage(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        since: From = None,
        until: To = None,
        after: AnyDevice = None,
        limit: DeviceLimit = 20,
    ) -> CoveragePage:
        """For each device and hour: samples stored, declared lost, and missing, of at most 31 days.

        What is not stored has no time of its own and is shared out over the hours between its neighbours; what has no
        neighbours with a time is `undated`. Without `device_id`: of `limit` devices, and `next` goes on with the others.
        """
        lower, upper = time_range(since, until)
        if upper - lower > RANGE_MAX:
            raise refused("At most 31 days at once")
        async with asking(pool) as connection:
            if device_id is None:
                device_ids = await hours.devices(connection, tenant_id=tenant_id, after=after or "", limit=limit)
            else:
                device_ids = [device_id]
            found = await hours.hours(connection, tenant_id=tenant_id, device_ids=device_ids, since=lower, until=upper)
        is_last = device_id is not None or len(device_ids) < limit
        return CoveragePage(found.hours, found.undated, None if is_last else device_ids[-1])

    return [coverage]

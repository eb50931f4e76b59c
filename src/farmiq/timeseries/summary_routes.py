"""The numbers that stand at the top of a page."""

from collections.abc import Sequence
from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.hour_routes import RANGE_MAX
from farmiq.timeseries.parameters import AnyDevice, From, Tenant, To, refused, time_range
from farmiq.timeseries.summary import Summary, summarize

DeviceLimit = Annotated[int, QueryParameter(ge=1, le=5000)]
ByDevice = Annotated[bool, QueryParameter()]


def summary_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/telemetry/summary", guards=guards, tags=["streams"])
    async def summary(
        tenant_id: Tenant,
        since: From = None,
        until: To = None,
        after: AnyDevice = None,
        limit: DeviceLimit = 1000,
        by_device: ByDevice = False,
    ) -> Summary:
        """What is stored of the last 24 hours, what was declared lost in them, and what is missing; at most 31 days.

        `stored` is of `limit` devices, and `next` goes on with the others: add the pages up.
        """
        lower, upper = time_range(since, until)
        if upper - lower > RANGE_MAX:
            raise refused("At most 31 days at once")
        async with read_as(pool, tenant_id) as connection:
            return await summarize(
                connection,
                tenant_id=tenant_id,
                since=lower,
                until=upper,
                after=after or "",
                limit=limit,
                is_by_device=by_device,
            )

    return [summary]

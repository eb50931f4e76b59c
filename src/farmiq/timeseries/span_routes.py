"""Where a chart has to be looked at twice: what was lost, is missing, or came late."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from litestar import get
from litestar.params import QueryParameter

from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import spans
from farmiq.timeseries.parameters import From, Tenant, To, time_range

Device = Annotated[str, QueryParameter(pattern=ID_PATTERN, max_length=64)]
LateSeconds = Annotated[float, QueryParameter(ge=1, le=86_400)]


def span_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/telemetry/spans", guards=guards, tags=["telemetry"])
    async def telemetry_spans(
        tenant_id: Tenant, device_id: Device, since: From = None, until: To = None, late_seconds: LateSeconds = 60
    ) -> spans.Spans:
        """When one device's samples were declared lost, are missing here, or came here later than `late_seconds`.

        What came late is looked for in 500 parts of the range, by the first sample of each.
        """
        lower, upper = time_range(since, until)
        async with read_as(pool, tenant_id) as connection:
            return await spans.spans(
                connection,
                tenant_id=tenant_id,
                device_id=device_id,
                since=lower,
                until=upper,
                late_after=timedelta(seconds=late_seconds),
            )

    return [telemetry_spans]

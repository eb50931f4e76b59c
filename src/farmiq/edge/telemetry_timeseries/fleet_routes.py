from datetime import timedelta
from typing import Any

from litestar import get

from farmiq.edge.ingress_gateway import devices
from farmiq.edge.telemetry_timeseries import store
from farmiq.edge.telemetry_timeseries.fleet import Fleet
from farmiq.edge.telemetry_timeseries.settings import TelemetrySettings
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import require_bearer
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.parameters import Tenant


def fleet_routes(pool: Pool, settings: TelemetrySettings, clock: Clock) -> list[Any]:
    online_timeout = timedelta(seconds=settings.online_timeout)

    @get("/api/v1/fleet", guards=[require_bearer(settings.admin_token)], tags=["devices"])
    async def fleet(tenant_id: Tenant) -> Fleet:
        """All devices of a tenant as one: how many are there, and what they hold that is not safe here yet.

        `runway_seconds` is null while every device delivers, `room_seconds` when none has said how much room it has.
        """
        async with read_as(pool, tenant_id) as connection:
            registered = await devices.registered(connection, tenant_id)
            found = await store.fleet(connection, registered.revoked_ids, clock.now(), online_timeout, tenant_id)
        found.never_heard = max(0, registered.count - found.online - found.quiet - found.idle)
        return found

    return [fleet]

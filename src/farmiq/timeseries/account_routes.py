"""What this tier says it has, for whoever compares tiers: `farmiq audit`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import FromQuery, QueryParameter

from farmiq.kit import erasure
from farmiq.kit.erasure import ErasureRecord
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.timeseries import accounts, hours
from farmiq.timeseries.accounts import Depth, DeviceAccount
from farmiq.timeseries.hour_routes import RANGE_MAX
from farmiq.timeseries.parameters import AnyDevice, From, SomeDevices, Tenant, To, checked_ids, refused, time_range

DeviceLimit = Annotated[int, QueryParameter(ge=1, le=100)]
RowsMax = Annotated[int, QueryParameter(ge=0, description="Rows are counted where there are at most so many")]


class AccountPage(msgspec.Struct, frozen=True):
    """`next` continues after the last device, given as `after`; it is null on the last page."""

    devices: list[DeviceAccount]
    retired_samples: int
    next: str | None


class Tenants(msgspec.Struct, frozen=True):
    tenants: list[str]


class Erasures(msgspec.Struct, frozen=True):
    """The newest first."""

    erasures: list[ErasureRecord]


def account_routes(pool: Pool, guards: Sequence[Any], admin_guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/accounts", guards=guards, tags=["audit"])
    async def devices(
        tenant_id: Tenant,
        device_ids: SomeDevices = None,
        since: From = None,
        until: To = None,
        rows_max: RowsMax = 0,
        exact: FromQuery[bool] = False,
        singles_since: FromQuery[datetime | None] = None,
        after: AnyDevice = None,
        limit: DeviceLimit = 20,
    ) -> AccountPage:
        """Coverage, counts and, on demand, the rows of some devices, as they are at one moment; hours of at most 31 days.

        With `exact` every sequence is looked at, without it only those of streams whose rows do not add up. Single readings from
        `singles_since` on are counted apart.
        """
        if singles_since is not None and singles_since.tzinfo is None:
            raise refused("singles_since needs a time zone")
        lower, upper = time_range(since, until)
        if upper - lower > RANGE_MAX:
            raise refused(f"At most {RANGE_MAX.days} days at once")
        named = checked_ids(device_ids)
        async with read_as(pool, tenant_id) as connection:
            shown = (
                named
                if named is not None
                else await hours.devices(connection, tenant_id=tenant_id, after=after or "", limit=limit)
            )
            found = await accounts.accounts(
                connection,
                tenant_id=tenant_id,
                device_ids=shown,
                since=lower,
                until=upper,
                depth=Depth(rows_max, exact),
                singles_since=singles_since,
            )
        is_last = named is not None or len(shown) < limit
        return AccountPage(found.devices, found.retired_samples, None if is_last else shown[-1])

    @get("/api/v1/tenants", guards=admin_guards, tags=["audit"])
    async def tenants() -> Tenants:
        """Everybody of whom something was measured here."""
        async with read_as(pool, ALL_TENANTS) as connection:
            return Tenants(await accounts.tenants(connection))

    @get("/api/v1/erasures", guards=guards, tags=["audit"])
    async def erasures(tenant_id: Tenant) -> Erasures:
        """What was erased of the tenant here: when, by whom, why, and how much it was."""
        async with read_as(pool, tenant_id) as connection:
            return Erasures(await erasure.records(connection, tenant_id))

    return [devices, tenants, erasures]

"""What was given up, of a whole tenant."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import QueryParameter

from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import EARLIEST
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries import losses, station_losses
from farmiq.timeseries.losses import LedgerRow, LossSummary
from farmiq.timeseries.paging import BeforeLoss, cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range
from farmiq.timeseries.station_losses import StationLossRow

AnyReason = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]


class LedgerPage(msgspec.Struct, frozen=True):
    """`next` continues with older ones, given as `after`; it is null on the last page."""

    losses: list[LedgerRow]
    next: str | None


class StationLedgerPage(msgspec.Struct, frozen=True):
    losses: list[StationLossRow]
    next: str | None


def loss_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/losses", guards=guards, tags=["streams"])
    async def ledger(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        reason: AnyReason = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
    ) -> LedgerPage:
        """Every declared loss of the tenant, newest first, by when the device gave it up; from the beginning unless `from` says
        otherwise."""
        lower, before = _window(since, until, after)
        async with read_as(pool, tenant_id) as connection:
            rows = await losses.ledger(
                connection,
                tenant_id=tenant_id,
                since=lower,
                before=before,
                device_id=device_id,
                reason=reason,
                limit=limit,
            )
        return LedgerPage(rows, cursor(losses.position_after(rows)) if len(rows) == limit else None)

    @get("/api/v1/losses/stations", guards=guards, tags=["streams"])
    async def of_stations(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        reason: AnyReason = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
    ) -> StationLedgerPage:
        """What weigh stations of the tenant gave up, in the order and with the questions of the ledger of streams."""
        lower, before = _window(since, until, after)
        only = {"device_id": device_id, "reason": reason}
        async with read_as(pool, tenant_id) as connection:
            rows = await station_losses.ledger(
                connection, tenant_id=tenant_id, since=lower, before=before, limit=limit, **only
            )
        last = cursor(station_losses.position_after(rows)) if len(rows) == limit else None
        return StationLedgerPage(rows, last)

    @get("/api/v1/losses/summary", guards=guards, tags=["streams"])
    async def summary(tenant_id: Tenant) -> LossSummary:
        """How much was ever given up, why, in which months, and since when somebody would have said so."""
        async with read_as(pool, tenant_id) as connection:
            return await losses.summary(connection, tenant_id=tenant_id)

    return [ledger, of_stations, summary]


def _window(since: datetime | None, until: datetime | None, after: str | None) -> tuple[datetime, BeforeLoss]:
    lower, upper = time_range(since or EARLIEST, until)
    if until is None:
        # A device whose clock runs ahead has dropped something tomorrow.
        upper += timedelta(days=366)
    return lower, position(after, BeforeLoss) or BeforeLoss(upper, losses.SMALLEST_ID)

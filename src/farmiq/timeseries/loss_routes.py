"""What was given up, of a whole tenant."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import get
from litestar.params import QueryParameter

from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import EARLIEST
from farmiq.kit.postgres import Pool
from farmiq.timeseries import losses
from farmiq.timeseries.asking import asking
from farmiq.timeseries.losses import LedgerRow, LossSummary
from farmiq.timeseries.paging import BeforeLoss, cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range

AnyReason = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]


class LedgerPage(msgspec.Struct, frozen=True):
    """`next` continues with older ones, given as `after`; it is null on the last page."""

    losses: list[LedgerRow]
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
        lower, upper = time_range(since or EARLIEST, until)
        if until is None:
            # A device whose clock runs ahead has dropped something tomorrow.
            upper += timedelta(days=366)
        before = position(after, BeforeLoss) or BeforeLoss(upper, losses.SMALLEST_ID)
        async with asking(pool) as connection:
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

    @get("/api/v1/losses/summary", guards=guards, tags=["streams"])
    async def summary(tenant_id: Tenant) -> LossSummary:
        """How much was ever given up, why, in which months, and since when somebody would have said so."""
        async with asking(pool) as connection:
            return await losses.summary(connection, tenant_id=tenant_id)

    return [ledger, summary]

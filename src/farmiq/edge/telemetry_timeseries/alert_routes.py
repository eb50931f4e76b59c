"""What the services of the edge have noted for a person, and the word of the person who knows."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec import Meta

from farmiq.contracts.ids import ID_PATTERN
from farmiq.edge.alerts import (
    AfterAlert,
    AlertClosed,
    AlertUnknown,
    OpsAlert,
    Status,
    acknowledge_alert,
    list_alerts,
)
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.timeseries.asking import asking
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, position

AnyTenant = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyStatus = Annotated[Status | None, QueryParameter()]
AlertLimit = Annotated[int, QueryParameter(ge=1, le=1000)]
# PostgreSQL's text can't hold a zero byte.
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00]*\Z")]
Note = Annotated[str, Meta(max_length=2000, pattern=r"^[^\x00]*\Z")]


class AlertPage(msgspec.Struct, frozen=True):
    """`next` continues after the last alert, given as `after`; it is null on the last page."""

    alerts: list[OpsAlert]
    next: str | None


class Acknowledgement(msgspec.Struct, frozen=True):
    """Who knows of it, and what they have to say."""

    by: Name
    note: Note = ""


def alert_routes(pool: Pool, admin_token: str) -> list[Any]:
    guards = [require_bearer(admin_token)]

    @get("/api/v1/alerts", guards=guards, tags=["alerts"])
    async def alerts(
        tenant_id: AnyTenant = None, status: AnyStatus = None, after: After = None, limit: AlertLimit = 100
    ) -> AlertPage:
        """Alerts of a tenant and of the edge box itself, the newest first. Without a tenant: of everybody."""
        start = position(after, AfterAlert)
        async with read_as(pool, tenant_id or ALL_TENANTS) as connection:
            found = await list_alerts(connection, tenant_id=tenant_id, status=status, after=start, limit=limit)
        return AlertPage(found, cursor((found[-1].opened_at, found[-1].id)) if len(found) == limit else None)

    @post("/api/v1/alerts/{alert_id:uuid}/acknowledge", guards=guards, tags=["alerts"], status_code=200)
    async def acknowledge(alert_id: FromPath[UUID], data: JSONBody[Acknowledgement]) -> OpsAlert:
        """A person knows of it. It stays until its cause is gone."""
        try:
            async with asking(pool) as connection:
                return await acknowledge_alert(connection, alert_id, by=data.by, note=data.note)
        except AlertUnknown as error:
            raise ApiError(404, error.code, "This edge has no alert of that id") from error
        except AlertClosed as error:
            raise ApiError(409, error.code, "The alert is closed: its cause is gone") from error

    return [alerts, acknowledge]

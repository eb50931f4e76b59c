"""Events that have no table of their own, as they came."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

import msgspec
from litestar import get
from litestar.params import QueryParameter

from farmiq.contracts.ids import EVENT_TYPE_LENGTH_MAX, EVENT_TYPE_PATTERN
from farmiq.contracts.timestamps import Timestamp
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.tenant_reads import read_as
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, From, Limit, Tenant, To, position, time_range

AnyType = Annotated[str | None, QueryParameter(pattern=EVENT_TYPE_PATTERN, max_length=EVENT_TYPE_LENGTH_MAX)]

SMALLEST_ID: Final = UUID(int=0)
_PAGE: Final = """
    SELECT event_id, event_type, farm_id, barn_id, device_id, session_id, occurred_at, trace_id, edge_cluster_id, payload,
           received_at
      FROM device_events
     WHERE tenant_id = $1 AND occurred_at >= $2 AND occurred_at <= $3 AND (occurred_at, event_id) < ($3, $4) {filters}
     ORDER BY occurred_at DESC, event_id DESC
     LIMIT $5
"""


class AfterEvent(NamedTuple):
    at: Timestamp
    event_id: UUID


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """`edge_cluster_id` is the edge that delivered it, from its credential."""

    event_id: UUID
    event_type: str
    farm_id: str | None
    barn_id: str | None
    device_id: str | None
    session_id: UUID | None
    occurred_at: datetime
    trace_id: str | None
    edge_cluster_id: str | None
    payload: msgspec.Raw
    received_at: datetime


class EventPage(msgspec.Struct, frozen=True):
    events: list[EventRow]
    next: str | None


def event_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/events", guards=guards, tags=["events"])
    async def events(
        tenant_id: Tenant,
        device_id: AnyDevice = None,
        event_type: AnyType = None,
        since: From = None,
        until: To = None,
        after: After = None,
        limit: Limit = 100,
    ) -> EventPage:
        """Events of types that have no table of their own, newest first: the 24 hours up to `to` unless `from` says otherwise."""
        lower, upper = time_range(since, until)
        only = {"device_id": device_id, "event_type": event_type}
        async with read_as(pool, tenant_id) as connection:
            before = position(after, AfterEvent) or AfterEvent(upper, SMALLEST_ID)
            rows = await events_of(connection, tenant_id, lower, before, only, limit)
        last = cursor(AfterEvent(rows[-1].occurred_at, rows[-1].event_id)) if len(rows) == limit else None
        return EventPage(rows, last)

    return [events]


async def events_of(
    connection: Connection,
    tenant_id: str,
    since: datetime,
    before: AfterEvent,
    only: dict[str, str | None],
    limit: int,
) -> list[EventRow]:
    given = {name: value for name, value in only.items() if value is not None}
    # Only what was asked for stands in the statement, so that PostgreSQL sees which index serves.
    filters = "".join(f" AND {name} = ${number}" for number, name in enumerate(given, start=6))
    rows = await connection.fetch(_PAGE.format(filters=filters), tenant_id, since, *before, limit, *given.values())
    return [EventRow(**row) for row in rows]

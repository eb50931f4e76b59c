"""The query API over measurements, the same at the edge and in the cloud. Every route but the totals names its tenant."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import get
from litestar.params import FromQuery, QueryParameter

from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import Pool
from farmiq.timeseries import queries, store

Tenant = Annotated[str, QueryParameter(max_length=64)]
Limit = Annotated[int, QueryParameter(ge=1, le=5000)]


class Totals(msgspec.Struct, frozen=True):
    """`samples_stored` counts single readings too, which no stream covers."""

    samples_stored: int
    samples_in_streams: int
    samples_lost: int
    streams: int


class ReadingPage(msgspec.Struct, frozen=True):
    """`next` continues after the last row; it is null on the last page."""

    readings: list[queries.ReadingRow]
    next: str | None


class StreamList(msgspec.Struct, frozen=True):
    streams: list[queries.StreamRow]


def measurement_routes(pool: Pool, admin_token: str) -> list[Any]:
    guards = [require_bearer(admin_token)]

    @get("/api/v1/telemetry/stats", guards=guards, tags=["telemetry"])
    async def stats() -> Totals:
        """How much is stored and declared lost, over all tenants."""
        async with pool.acquire() as connection:
            found = await store.totals(connection)
        return Totals(found["stored"], found["in_streams"], found["lost"], found["streams"])

    @get("/api/v1/telemetry/readings", guards=guards, tags=["telemetry"])
    async def readings(
        tenant_id: Tenant,
        device_id: FromQuery[str],
        metric: FromQuery[str | None] = None,
        since: Annotated[datetime | None, QueryParameter(name="from")] = None,
        until: Annotated[datetime | None, QueryParameter(name="to")] = None,
        after: FromQuery[str | None] = None,
        limit: Limit = 100,
    ) -> ReadingPage:
        """One device's samples, newest first: the 24 hours up to `to` (default: now) unless `from` says otherwise.

        Page on by giving `next` as `after`.
        """
        upper = _utc(until) if until else datetime.now(UTC)
        lower = _utc(since) if since else upper - timedelta(days=1)
        async with pool.acquire() as connection:
            rows = await queries.readings(
                connection,
                tenant_id=tenant_id,
                device_id=device_id,
                since=lower,
                until=upper,
                metric=metric,
                before=_position(after),
                limit=limit,
            )
        return ReadingPage(rows, _cursor(rows[-1]) if len(rows) == limit else None)

    @get("/api/v1/streams", guards=guards, tags=["telemetry"])
    async def streams(tenant_id: Tenant, device_id: FromQuery[str | None] = None, limit: Limit = 1000) -> StreamList:
        """Coverage of each stream: what is stored, declared lost, and missing."""
        async with pool.acquire() as connection:
            return StreamList(await queries.streams(connection, tenant_id=tenant_id, device_id=device_id, limit=limit))

    return [stats, readings, streams]


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ApiError(400, "invalid_request", "Times need a zone: 2025-01-01T10:00:00Z")
    return moment.astimezone(UTC)


def _cursor(row: queries.ReadingRow) -> str:
    return f"{row.occurred_at.isoformat().replace('+00:00', 'Z')}_{row.id}"


def _position(after: str | None) -> tuple[datetime, UUID] | None:
    if after is None:
        return None
    at, _, row_id = after.partition("_")
    try:
        return datetime.fromisoformat(at), UUID(row_id)
    except ValueError as error:
        raise ApiError(400, "invalid_request", "`after` is not the `next` of an earlier page") from error

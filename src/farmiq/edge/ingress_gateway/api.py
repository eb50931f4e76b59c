from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import get
from litestar.params import FromQuery, QueryParameter

from farmiq.edge.ingress_gateway import store
from farmiq.edge.ingress_gateway.counters import Counters, Stats
from farmiq.kit.http_server import require_bearer
from farmiq.kit.postgres import Pool


class RejectedMessage(msgspec.Struct, frozen=True):
    id: UUID
    received_at: datetime
    topic: str
    reason: str
    detail: str
    payload_size_bytes: int
    tenant_id: str | None
    device_id: str | None
    event_id: UUID | None
    trace_id: str | None


class RejectedList(msgspec.Struct, frozen=True):
    rejected: list[RejectedMessage]


def routes(pool: Pool, counters: Counters, admin_token: str) -> list[Any]:
    @get("/api/v1/ingress/stats", tags=["ingress"], sync_to_thread=False)
    def stats() -> Stats:
        """What this replica has taken since it started."""
        return counters.stats

    @get("/api/v1/ingress/rejected", guards=[require_bearer(admin_token)], tags=["ingress"])
    async def rejected(
        tenant_id: FromQuery[str | None] = None,
        reason: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    ) -> RejectedList:
        """Messages that were not taken, newest first, with the reason."""
        async with pool.acquire() as connection:
            rows = await store.rejected(connection, tenant_id, reason, limit)
        return RejectedList([RejectedMessage(**row) for row in rows])

    return [stats, rejected]

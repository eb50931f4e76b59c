from datetime import datetime
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import Timestamp
from farmiq.edge.ingress_gateway import store
from farmiq.edge.ingress_gateway.counters import Counters, Stats
from farmiq.edge.ingress_gateway.limited import Limits
from farmiq.edge.ingress_gateway.refusals import BrokerRefusal, of_tenant
from farmiq.edge.telemetry_timeseries.sync_mode import SyncPlan
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.timeseries.paging import cursor
from farmiq.timeseries.parameters import After, AnyDevice, position

PAYLOAD_SHOWN_BYTES = 1024

AnyTenant = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
AnyReason = Annotated[str | None, QueryParameter(pattern=r"^[a-z][a-z_0-9]{0,63}\Z", max_length=64)]


class AfterRejected(NamedTuple):
    at: Timestamp
    id: UUID


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


class RejectedPage(msgspec.Struct, frozen=True):
    """`next` continues after the last message, given as `after`; it is null on the last page."""

    rejected: list[RejectedMessage]
    next: str | None


class RejectedPayload(msgspec.Struct, frozen=True):
    """How the payload begins. Whatever is not a printable ASCII character stands there as `\\xNN`."""

    message: RejectedMessage
    payload_beginning: str


class RefusalPage(msgspec.Struct, frozen=True):
    """One entry for each device and kind, the newest first."""

    refusals: list[BrokerRefusal]


def routes(pool: Pool, counters: Counters, admin_token: str, plan: SyncPlan, clock: Clock) -> list[Any]:
    guards = [require_bearer(admin_token)]

    @get("/api/v1/ingress/stats", guards=guards, tags=["ingress"], sync_to_thread=False)
    def stats() -> Stats:
        """What this replica has taken since it started."""
        return counters.stats

    @get("/api/v1/ingress/sync-plan", guards=guards, tags=["ingress"], sync_to_thread=False)
    def sync_plan() -> SyncPlan:
        """What the cloud is told of measurements: every sample, the aggregates of closed windows, or both."""
        return plan

    @get("/api/v1/ingress/limits", guards=guards, tags=["ingress"], sync_to_thread=False)
    def limits(tenant_id: AnyTenant = None, device_id: AnyDevice = None) -> Limits:
        """Which devices were limited in the last hour, and why: over a rate, too many streams, or no room on the disk."""
        found = counters.limited.of_last_hour(clock.now())
        return Limits(
            counters.disk(),
            [one for one in found if tenant_id in (None, one.tenant_id) and device_id in (None, one.device_id)],
        )

    @get("/api/v1/ingress/rejected", guards=guards, tags=["ingress"])
    async def rejected(
        tenant_id: AnyTenant = None,
        reason: AnyReason = None,
        after: After = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    ) -> RejectedPage:
        """Messages that were not taken, newest first, with the reason. One whose topic could not be read has no tenant."""
        async with read_as(pool, tenant_id or ALL_TENANTS) as connection:
            rows = await store.rejected(connection, tenant_id, reason, position(after, AfterRejected), limit)
        messages = [RejectedMessage(**row) for row in rows]
        return RejectedPage(messages, _next(messages[-1]) if len(messages) == limit else None)

    @get("/api/v1/ingress/rejected/{rejected_id:uuid}", guards=guards, tags=["ingress"])
    async def rejected_one(rejected_id: FromPath[UUID]) -> RejectedPayload:
        """One of them, with the beginning of what the device sent."""
        async with read_as(pool, ALL_TENANTS) as connection:
            row = await store.rejected_one(connection, rejected_id, PAYLOAD_SHOWN_BYTES)
        if row is None:
            raise ApiError(404, "unknown_message", f"There is no rejected message {rejected_id}, or no longer")
        fields = dict(row)
        beginning = fields.pop("beginning")
        return RejectedPayload(RejectedMessage(**fields), printable(beginning))

    @get("/api/v1/ingress/refusals", guards=guards, tags=["ingress"])
    async def broker_refusals(
        tenant_id: Annotated[str, QueryParameter(pattern=ID_PATTERN, max_length=64)],
        device_id: Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=1000)] = 100,
    ) -> RefusalPage:
        """What our own broker refused to devices of this tenant, and connections that another one with the same login ended."""
        async with read_as(pool, tenant_id) as connection:
            return RefusalPage(await of_tenant(connection, tenant_id, device_id, limit))

    return [stats, sync_plan, limits, rejected, rejected_one, broker_refusals]


def printable(data: bytes) -> str:
    """Nothing in it can move a cursor, end a line or turn the direction of writing; and it can be read back exactly."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte != ord("\\") else f"\\x{byte:02x}" for byte in data)


def _next(last: RejectedMessage) -> str:
    return cursor(AfterRejected(last.received_at, last.id))

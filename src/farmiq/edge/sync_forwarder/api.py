from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from litestar import Request, get, post
from litestar.params import FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct

from farmiq.contracts.ids import ID_PATTERN
from farmiq.edge.sync_forwarder import store
from farmiq.edge.sync_forwarder.store import Link
from farmiq.kit.http_server import ApiError, has_bearer, is_from_this_machine, require_bearer
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.outbox import backlog, holders, redrive, unsent
from farmiq.outbox.backlog import Entry, Status
from farmiq.outbox.held import HeldRows, held_subjects
from farmiq.outbox.holders import DeadGroup, Holder
from farmiq.outbox.redrive import DeadLetters
from farmiq.outbox.unsent import WaitingEvent
from farmiq.outbox.wakeup import Wakeup
from farmiq.timeseries.asking import asking

log = get_logger(__name__)

AnyRequest = Request[Any, Any, Any]
Limit = Annotated[int, QueryParameter(ge=1, le=1000)]
Tenant = Annotated[str, QueryParameter(pattern=ID_PATTERN, max_length=64)]
WaitingLimit = Annotated[int, QueryParameter(ge=1, le=20_000)]
Seconds = Annotated[float | None, QueryParameter(ge=0, le=1e9)]
WAITING_COUNTED_MAX = 10_000
AnyTenant = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]


class SyncState(Struct, frozen=True, kw_only=True):
    pending_count: int
    claimed_count: int
    dlq_count: int
    oldest_pending_age_seconds: int
    last_success_at: datetime | None
    last_error_at: datetime | None


class Entries(Struct, frozen=True):
    count: int
    entries: list[Entry]


class OutboxEntries(Struct, frozen=True):
    """`waiting` is how many events of the tenant wait, counted up to 10,000; null when no tenant was named."""

    count: int
    entries: list[Entry]
    waiting: int | None = None


class SyncDetail(Struct, frozen=True):
    """Who sends what just now, and the way of each tenant."""

    holders: list[Holder]
    links: list[Link]


class DeadGroups(Struct, frozen=True):
    groups: list[DeadGroup]


class Waiting(Struct, frozen=True):
    """`is_complete` is false where there are more than were asked for: `next` is then the `after` of the next page."""

    events: list[WaitingEvent]
    is_complete: bool
    next: UUID | None = None


class HeldEvents(Struct, frozen=True):
    """`is_tenant_refused`: the cloud answers the tenant's batches with 403. `held` is by device or weigh session, up to 1,000."""

    edge_cluster_id: str
    is_tenant_refused: bool
    held: list[HeldRows]


class Triggered(Struct, frozen=True):
    status: str = "triggered"


class RedriveRequest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Some ids, or everything, or what the filters say: `tenantId`, `eventType`, `errorCode` (the row's `last_error_code`) and
    `olderThanSeconds` (since it was given up), all of which must hold. With `dryRun` nothing is changed."""

    ids: Annotated[list[UUID], Meta(max_length=5000)] = []
    all_dlq: bool = False
    tenant_id: Annotated[str, Meta(max_length=200)] | None = None
    event_type: Annotated[str, Meta(max_length=200)] | None = None
    error_code: Annotated[str, Meta(max_length=200)] | None = None
    older_than_seconds: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    dry_run: bool = False

    def chosen(self) -> DeadLetters:
        filters = (self.tenant_id, self.event_type, self.error_code, self.older_than_seconds)
        has_filter = any(value is not None for value in filters)
        if bool(self.ids) + self.all_dlq + has_filter != 1:
            raise ApiError(400, "invalid_request", 'Give "ids", or "allDlq": true, or at least one filter')
        return DeadLetters(
            ids=self.ids or None,
            tenant_id=self.tenant_id,
            event_type=self.event_type,
            error_code=self.error_code,
            older_than_seconds=self.older_than_seconds,
        )


class Redriven(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`wouldRedrive` is the answer to a dry run."""

    redriven: int
    would_redrive: int | None = None


class UnclaimRequest(Struct, frozen=True, rename="camel"):
    older_than_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 300


class Unclaimed(Struct, frozen=True):
    unclaimed: int


def routes(pool: Pool, wakeups: Sequence[Wakeup], admin_token: str | None, *, is_loopback_only: bool) -> list[Any]:
    """Counts are open. What names events and devices of every tenant needs the token."""

    @get("/api/v1/sync/state", tags=["sync"])
    async def state() -> SyncState:
        """How far behind the cloud is, over all tenants and replicas."""
        async with asking(pool) as connection:
            depth = await backlog.measure(connection)
            marks = await store.marks(connection)
        return SyncState(
            pending_count=depth.pending_count,
            claimed_count=depth.claimed_count,
            dlq_count=depth.dlq_count,
            oldest_pending_age_seconds=int(depth.oldest_pending_age_seconds),
            last_success_at=marks.last_success_at,
            last_error_at=marks.last_error_at,
        )

    @get("/api/v1/sync/outbox", tags=["sync"], guards=[require_bearer(admin_token)])
    async def outbox(
        status: FromQuery[Status | None] = None, limit: Limit = 100, tenant_id: AnyTenant = None
    ) -> OutboxEntries:
        """Rows of the outbox without their payloads; of all tenants, or of one."""
        async with read_as(pool, tenant_id or ALL_TENANTS) as connection:
            found = await backlog.entries(connection, status, limit=limit, tenant_id=tenant_id)
            waiting = None
            if tenant_id is not None:
                waiting = await backlog.waiting_of(connection, tenant_id, counted_max=WAITING_COUNTED_MAX)
        return OutboxEntries(len(found), found, waiting)

    @post("/api/v1/sync/trigger", tags=["sync"], status_code=202, sync_to_thread=False)
    def trigger(request: AnyRequest) -> Triggered:
        """Look for something to send at once, also where a tenant pauses because the cloud could not be reached.

        Without a token it works from this machine only, while the service listens on loopback only, and ends no pause.
        """
        is_operator = has_bearer(request, admin_token)
        if not is_operator and not (is_loopback_only and is_from_this_machine(request)):
            raise ApiError(401, "unauthorized", "From other machines this route needs a bearer token: ADMIN_TOKEN")
        for wakeup in wakeups:
            if is_operator:
                wakeup.force()
            else:
                wakeup.poke()
        return Triggered()

    return [state, outbox, trigger]


def admin_routes(pool: Pool, wakeup: Wakeup, admin_token: str, edge_cluster_id: str) -> list[Any]:
    guards = [require_bearer(admin_token)]

    @get("/api/v1/sync/detail", tags=["admin"], guards=guards)
    async def detail(tenant_id: AnyTenant = None) -> SyncDetail:
        """Leases by forwarder, and the breaker of each tenant; of all tenants, or of one."""
        async with read_as(pool, tenant_id or ALL_TENANTS) as connection:
            held, links = await holders.holders(connection), await store.links(connection)
        return SyncDetail(
            [one for one in held if tenant_id in {None, one.tenant_id}],
            [one for one in links if tenant_id in {None, one.tenant_id}],
        )

    @get("/api/v1/sync/held", tags=["admin"], guards=guards)
    async def held(tenant_id: Tenant) -> HeldEvents:
        """What of a tenant the cloud does not take until a person decides, with its reason; it waits here meanwhile."""
        async with read_as(pool, tenant_id) as connection:
            refused = await store.refused_tenants(connection, tenant_id)
            return HeldEvents(edge_cluster_id, bool(refused), await held_subjects(connection, tenant_id))

    @get("/api/v1/sync/dlq/groups", tags=["admin"], guards=guards)
    async def groups(tenant_id: Tenant) -> DeadGroups:
        """Dead letters of a tenant by what the cloud said about them; of more than 50,000 the latest."""
        async with read_as(pool, tenant_id) as connection:
            return DeadGroups(await holders.dead_groups(connection, tenant_id))

    @get("/api/v1/sync/dlq", tags=["admin"], guards=guards)
    async def dlq(limit: Limit = 100, tenant_id: AnyTenant = None) -> Entries:
        """Events that were given up, with the reason; of all tenants, or of one."""
        async with read_as(pool, tenant_id or ALL_TENANTS) as connection:
            found = await backlog.dead_letters(connection, tenant_id, limit=limit)
        return Entries(len(found), found)

    @post("/api/v1/sync/redrive", tags=["admin"], guards=guards, status_code=200)
    async def redrive_dead_letters(data: JSONBody[RedriveRequest]) -> Redriven:
        """Try dead letters again as if they were new."""
        chosen = data.chosen()
        async with asking(pool) as connection:
            if data.dry_run:
                return Redriven(0, await redrive.count_dead_letters(connection, chosen))
            count = await redrive.redrive(connection, chosen)
        log.info("dead_letters_requeued", events=count)
        wakeup.poke()
        return Redriven(count)

    @post("/api/v1/sync/unclaim-stuck", tags=["admin"], guards=guards, status_code=200)
    async def unclaim_stuck(data: JSONBody[UnclaimRequest]) -> Unclaimed:
        """Take rows back from a forwarder that is gone: those whose lease is over, or which it has had for longer than that."""
        async with asking(pool) as connection:
            count = await redrive.unclaim(connection, older_than_seconds=data.older_than_seconds)
        log.info("claims_taken_back", events=count)
        wakeup.poke()
        return Unclaimed(count)

    return [detail, *waiting_routes(pool, guards), held, groups, dlq, redrive_dead_letters, unclaim_stuck]


def waiting_routes(pool: Pool, guards: Sequence[Any]) -> list[Any]:
    @get("/api/v1/sync/waiting", tags=["admin"], guards=guards)
    async def waiting(tenant_id: Tenant, after: FromQuery[UUID | None] = None, limit: WaitingLimit = 20_000) -> Waiting:
        """What of a tenant the cloud has not acknowledged: which samples each pack holds, and whether it was given up."""
        async with read_as(pool, tenant_id) as connection:
            found = await unsent.waiting(connection, tenant_id, after=after or unsent.BEFORE_ALL, limit=limit + 1)
        is_complete = len(found) <= limit
        return Waiting(found[:limit], is_complete, None if is_complete else found[limit - 1].id)

    @get("/api/v1/sync/acknowledged", tags=["admin"], guards=guards)
    async def acknowledged(
        tenant_id: Tenant,
        seconds: Seconds = None,
        after: FromQuery[UUID | None] = None,
        limit: WaitingLimit = 20_000,
    ) -> Waiting:
        """What of a tenant the cloud has acknowledged in the last `seconds`, as far as the outbox still has it: it may be on the
        cloud's bus, and not stored yet."""
        async with read_as(pool, tenant_id) as connection:
            found = await unsent.acknowledged(
                connection, tenant_id, seconds=seconds, after=after or unsent.BEFORE_ALL, limit=limit + 1
            )
        is_complete = len(found) <= limit
        return Waiting(found[:limit], is_complete, None if is_complete else found[limit - 1].id)

    return [waiting, acknowledged]

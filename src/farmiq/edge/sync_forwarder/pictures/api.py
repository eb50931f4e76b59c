from typing import Annotated, Any
from uuid import UUID

from litestar import get, post
from litestar.params import FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct

from farmiq.contracts.ids import ID_PATTERN
from farmiq.edge.sync_forwarder.pictures import store
from farmiq.edge.sync_forwarder.pictures.alerts import close_settled
from farmiq.edge.sync_forwarder.pictures.store import Chosen, State, TransferEntry
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.outbox.wakeup import Wakeup
from farmiq.timeseries.asking import asking

log = get_logger(__name__)

Limit = Annotated[int, QueryParameter(ge=1, le=1000)]
Named = Annotated[
    list[UUID] | None, QueryParameter(name="media_id", description="Only these pictures, whatever their state")
]
AnyTenant = Annotated[str | None, QueryParameter(pattern=ID_PATTERN, max_length=64)]
NAMED_MAX = 1000


class Transfers(Struct, frozen=True, kw_only=True):
    """The counts are of the tenant, or of all, up to 50,000 of a state; `entries` are those of the state that was asked for."""

    pending_count: int
    sending_count: int
    failed_count: int
    entries: list[TransferEntry]


class MediaRedriveRequest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Some ids, or everything that was given up, or what the filters say, all of which must hold."""

    ids: Annotated[list[UUID], Meta(max_length=5000)] = []
    all_failed: bool = False
    tenant_id: Annotated[str, Meta(max_length=200)] | None = None
    error_code: Annotated[str, Meta(max_length=200)] | None = None
    dry_run: bool = False

    def chosen(self) -> Chosen:
        has_filter = self.tenant_id is not None or self.error_code is not None
        if bool(self.ids) + self.all_failed + has_filter != 1:
            raise ApiError(400, "invalid_request", 'Give "ids", or "allFailed": true, or at least one filter')
        return Chosen(ids=self.ids or None, tenant_id=self.tenant_id, error_code=self.error_code)


class MediaRedriven(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`wouldRedrive` is the answer to a dry run."""

    redriven: int
    would_redrive: int | None = None


def picture_routes(pool: Pool, admin_token: str | None) -> list[Any]:
    @get("/api/v1/sync/media", tags=["sync"], guards=[require_bearer(admin_token)])
    async def media(
        status: FromQuery[State | None] = None, limit: Limit = 100, named: Named = None, tenant_id: AnyTenant = None
    ) -> Transfers:
        """Pictures on their way to the cloud, and those that were given up, with the reason; of all tenants, or of one."""
        if named is not None and (status is not None or len(named) > NAMED_MAX):
            raise ApiError(400, "invalid_request", f"Give either `status` or at most {NAMED_MAX} times `media_id`")
        async with read_as(pool, tenant_id or ALL_TENANTS) as connection:
            counts = await store.counts(connection, tenant_id)
            if named is None:
                found = await store.entries(connection, status, limit=limit, tenant_id=tenant_id)
            else:
                found = [one for one in await store.named(connection, named) if tenant_id in {None, one.tenant_id}]
        return Transfers(
            pending_count=counts["pending"],
            sending_count=counts["sending"],
            failed_count=counts["failed"],
            entries=found,
        )

    return [media]


def picture_admin_routes(pool: Pool, wakeup: Wakeup, admin_token: str) -> list[Any]:
    @post("/api/v1/sync/media/redrive", tags=["admin"], guards=[require_bearer(admin_token)], status_code=200)
    async def redrive_media(data: JSONBody[MediaRedriveRequest]) -> MediaRedriven:
        """Send pictures that were given up as if they were new."""
        chosen = data.chosen()
        async with asking(pool) as connection, connection.transaction():
            if data.dry_run:
                return MediaRedriven(0, await store.count_chosen(connection, chosen))
            before = await store.failures(connection)
            count = await store.redrive(connection, chosen)
            await close_settled(connection, before, await store.failures(connection))
        log.info("pictures_requeued", pictures=count)
        wakeup.force()
        return MediaRedriven(count)

    return [redrive_media]

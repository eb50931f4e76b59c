"""Dead letters over HTTP, for the console: what `farmiq dlq` does, within the bounds of a request."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from litestar import get, post
from litestar.params import JSONBody, PathParameter, QueryParameter
from msgspec import Meta
from structlog.contextvars import get_contextvars

from farmiq.cloud.dead_letters import audit, handlers
from farmiq.cloud.dead_letters.audit import Action, Asked, Kind
from farmiq.cloud.dead_letters.course import Result
from farmiq.cloud.dead_letters.filters import Filter
from farmiq.cloud.dead_letters.pace import Pace
from farmiq.cloud.dead_letters.summary import Summary
from farmiq.cloud.dead_letters.views import LetterView, view_of
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import Publisher
from farmiq.kit.clock import Clock
from farmiq.kit.errors import reason_of
from farmiq.kit.http_server import ApiError, require_bearer
from farmiq.kit.postgres import RETRY, Connection, DatabaseAway, Pool

SEEN_MAX: Final = 10_000
MESSAGES_MAX: Final = 1000
SECONDS_MAX: Final = 60.0
POOL_WAIT_SECONDS: Final = 5.0
ASKED_BY: Final = "admin-token"

Text = Annotated[str, Meta(max_length=256)]
Service = Annotated[str, PathParameter(max_length=64)]
Asking = Annotated[str | None, QueryParameter(max_length=256)]
AskingTime = Annotated[datetime | None, QueryParameter(description="RFC 3339 with a zone")]
Limit = Annotated[int, QueryParameter(ge=1, le=200)]


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which letters, and how many of them at most. Every part of the filter that is given has to fit."""

    reason: Text | None = None
    event_type: Text | None = None
    tenant_id: Text | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: Annotated[tuple[Text, ...], Meta(max_length=1000)] = ()
    limit: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = MESSAGES_MAX
    dry_run: bool = False


class ReplayOrder(Order, frozen=True, kw_only=True, forbid_unknown_fields=True):
    messages_per_second: Annotated[float, Meta(gt=0)] | None = None


class DiscardOrder(Order, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing is discarded by accident: `confirm` has to be true, unless it is a dry run. `note` is why, for the loss ledger."""

    confirm: bool = False
    note: Annotated[str, Meta(max_length=500)] | None = None


class Queues(msgspec.Struct, frozen=True):
    queues: list[Summary]


class Letters(msgspec.Struct, frozen=True):
    messages: list[LetterView]


class Actions(msgspec.Struct, frozen=True):
    actions: list[Action]


def dead_letter_routes(pool: Pool, publisher: Publisher, amqp_url: str, admin_token: str, clock: Clock) -> list[Any]:
    guards = [require_bearer(admin_token)]

    @get("/api/v1/dlq", tags=["dead letters"], guards=guards)
    async def queues(tenant_id: Asking = None, device_id: Asking = None) -> Queues:
        """How many dead letters each service has, by reason. Of more the first 10,000 are looked at.

        With a tenant or a device: the reasons are counted for its letters only.
        """
        wanted = Filter(tenant_id=tenant_id, device_id=device_id)
        async with _connection(pool) as connection:
            return Queues(
                [await handlers.summarize(connection, amqp_url, service, SEEN_MAX, wanted) for service in WORK_QUEUES]
            )

    @get("/api/v1/dlq/{service:str}/messages", tags=["dead letters"], guards=guards)
    async def messages(
        service: Service,
        reason: Asking = None,
        event_type: Asking = None,
        tenant_id: Asking = None,
        since: AskingTime = None,
        until: AskingTime = None,
        message_id: Annotated[str | None, QueryParameter(name="id", max_length=256)] = None,
        limit: Limit = 50,
    ) -> Letters:
        """The first letters that match, with their envelopes."""
        wanted = _filter(reason, event_type, tenant_id, since, until, () if message_id is None else (message_id,))
        async with _connection(pool) as connection:
            letters = await handlers.find(
                connection, amqp_url, _known(service), wanted, limit=limit, messages_max=SEEN_MAX
            )
        return Letters([view_of(one) for one in letters])

    @post("/api/v1/dlq/{service:str}/replay", tags=["dead letters"], guards=guards, status_code=200)
    async def replay(service: Service, data: JSONBody[ReplayOrder]) -> Result:
        """Put letters back into their service's queue. Asked again, it goes on with those that are left."""
        if data.messages_per_second is not None and data.limit / data.messages_per_second > SECONDS_MAX:
            raise ApiError(400, "too_slow", f"That would take more than {SECONDS_MAX:.0f} s: lower the limit")
        async with _connection(pool) as connection:
            return await handlers.replay(
                connection,
                amqp_url,
                publisher,
                _asked("replay", service, data),
                seen_max=SEEN_MAX,
                pace=Pace(data.messages_per_second, clock),
            )

    @post("/api/v1/dlq/{service:str}/discard", tags=["dead letters"], guards=guards, status_code=200)
    async def discard(service: Service, data: JSONBody[DiscardOrder]) -> Result:
        """Remove letters. They are kept in `discarded_letters` for a while; what they held is in the loss ledger, with `note`."""
        if not (data.confirm or data.dry_run):
            raise ApiError(400, "not_confirmed", 'Say "confirm": true to discard, or "dry_run": true to count')
        async with _connection(pool) as connection:
            return await handlers.discard(connection, amqp_url, _asked("discard", service, data), seen_max=SEEN_MAX)

    @get("/api/v1/dlq/actions", tags=["dead letters"], guards=guards)
    async def actions(limit: Limit = 50) -> Actions:
        """What was replayed and discarded, latest first. One that is not finished is under way, or was cut short."""
        async with _connection(pool) as connection:
            return Actions(await audit.actions(connection, limit))

    return [queues, messages, replay, discard, actions]


@asynccontextmanager
async def _connection(pool: Pool) -> AsyncIterator[Connection]:
    try:
        async with pool.acquire(timeout=POOL_WAIT_SECONDS) as connection:
            yield connection
    except RETRY as error:
        raise DatabaseAway(f"PostgreSQL: {reason_of(error)}") from error


def _known(service: str) -> str:
    if service not in WORK_QUEUES:
        raise ApiError(404, "no_such_service", f"There are dead letters of {', '.join(WORK_QUEUES)}")
    return service


def _asked(kind: Kind, service: str, order: Order) -> Asked:
    return Asked(
        kind=kind,
        service=_known(service),
        queue=WORK_QUEUES[service].dead_letter_queue,
        wanted=_filter(order.reason, order.event_type, order.tenant_id, order.since, order.until, order.ids),
        messages_max=order.limit,
        is_dry_run=order.dry_run,
        asked_by=ASKED_BY,
        asked_over="api",
        trace_id=get_contextvars().get("trace_id"),
        note=order.note if isinstance(order, DiscardOrder) else None,
    )


def _filter(
    reason: str | None,
    event_type: str | None,
    tenant_id: str | None,
    since: datetime | None,
    until: datetime | None,
    ids: tuple[str, ...],
) -> Filter:
    if any(at is not None and at.tzinfo is None for at in (since, until)):
        raise ApiError(400, "no_time_zone", "since and until need a time zone, for instance 2026-01-01T10:00:00Z")
    return Filter(reason=reason, event_type=event_type, tenant_id=tenant_id, since=since, until=until, ids=ids)

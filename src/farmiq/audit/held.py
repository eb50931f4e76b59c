"""What a person has to decide before it goes on: events that the cloud holds, and devices that are kept from speaking.

Nothing of it is missing. Such events are in the edge's outbox and count as in flight; whoever reads the audit learns why they
stay there, and which command lets them go."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct

from farmiq.audit import answers
from farmiq.audit.outbox import SYNC
from farmiq.console.neighbours import Neighbours, Refused

T = TypeVar("T")

GATEWAY: Final = "edge-ingress-gateway"
TENANT_NOT_GRANTED: Final = "tenant_not_granted"
RECENT: Final = timedelta(hours=1)
NAMED_MAX: Final = 20


class HeldEvents(Struct, frozen=True, kw_only=True):
    """Of one device or weigh session or, without both, everything of a tenant. `message` names the owner."""

    tenant_id: str
    reason: str
    events: int
    message: str
    command: str
    device_id: str | None = None
    session_id: UUID | None = None
    since: datetime | None = None


async def held_answer(neighbours: Neighbours, tenant_id: str) -> answers.Held | None:
    """None at an edge of an earlier release, which does not tell."""
    return await known(neighbours, SYNC, "/api/v1/sync/held", answers.Held, tenant_id=tenant_id)


def held_of(answer: answers.Held | None, tenant_id: str, device_id: str | None, waiting: int) -> list[HeldEvents]:
    """`waiting`: events that the outbox has of them."""
    if answer is None:
        return []
    found = [_held(tenant_id, one) for one in answer.held if device_id in (None, one.device_id)]
    if answer.is_tenant_refused and waiting:
        edge = answer.edge_cluster_id
        refused = HeldEvents(
            tenant_id=tenant_id,
            reason=TENANT_NOT_GRANTED,
            events=waiting,
            message=f"edge {edge} may not deliver for tenant {tenant_id}",
            command=f"farmiq edge grant {edge} --tenant {tenant_id}",
        )
        found.append(refused)
    return found


async def read_kept_out(neighbours: Neighbours, tenant_id: str, device_id: str | None, now: datetime) -> list[str]:
    """In words: which devices the gateway has limited and the broker has refused something in the last hour."""
    asked = {"tenant_id": tenant_id, "device_id": device_id}
    limits = await known(neighbours, GATEWAY, "/api/v1/ingress/limits", answers.Limits, **asked)
    page = await known(neighbours, GATEWAY, "/api/v1/ingress/refusals", answers.Refusals, **asked)
    limited = [f"{one.device_id} {one.messages:,} ({one.reason})" for one in (limits.limited if limits else [])]
    refused = [
        f"{one.device_id} {one.count:,} ({one.kind})"
        for one in (page.refusals if page else [])
        if one.last_at > now - RECENT
    ]
    notes = []
    if limited:
        notes.append(
            f"Messages that devices keep because the gateway limited them in the last hour: {_named(limited)}."
        )
    if refused:
        notes.append(f"Refused by the broker, the last one less than an hour ago: {_named(refused)}.")
    return notes


def _held(tenant_id: str, one: answers.HeldEvents) -> HeldEvents:
    """The cloud's message is the reason and, behind a colon, the command."""
    message, _, command = (one.message or one.code).partition(": farmiq ")
    return HeldEvents(
        tenant_id=tenant_id,
        reason=one.code,
        events=one.events,
        message=message,
        command=f"farmiq {command or f'device owners {one.device_id}'}",
        device_id=one.device_id,
        session_id=one.session_id,
        since=one.since,
    )


async def known(neighbours: Neighbours, service: str, path: str, kind: type[T], **query: Any) -> T | None:
    """None where a service of an earlier release does not have the route."""
    try:
        return await neighbours.get(service, path, kind, **query)
    except Refused as error:
        if error.status != 404:
            raise
        return None


def _named(parts: Collection[str]) -> str:
    more = len(parts) - NAMED_MAX
    return ", ".join([*parts][:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")

"""The requests behind the pages about weigh sessions. A service that is away leaves its part open."""

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypeVar
from uuid import UUID

from msgspec import Struct

from farmiq.console.curves.choosing import AskedTier
from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.console.weighings.answers import (
    CloudPage,
    CloudView,
    EdgeDetail,
    EdgePage,
    Job,
    Jobs,
    JobsAccepted,
    Status,
    Transfer,
    Transfers,
)
from farmiq.console.weighings.cards import Card, card_of_cloud, card_of_edge

EDGE: Final = "edge-weighvision-session"
CLOUD: Final = "cloud-telemetry-service"
SESSIONS: Final = "/api/v1/weighvision/sessions"
NAMED_MAX: Final = 100
COMPARED_MAX: Final = 1000

T = TypeVar("T")


class Filter(Struct, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    status: Status | None = None
    is_incomplete: bool = False
    device_id: str | None = None
    batch_id: str | None = None


class Gallery(Struct, frozen=True):
    tier: Literal["edge", "cloud"]
    cards: list[Card]
    next: str | None
    note: str


class Answered(Struct, frozen=True, kw_only=True):
    """What each service said of one session. `edge` and `cloud` are None where it is not known, or nobody answered."""

    edge: EdgeDetail | None
    cloud: CloudView | None
    transfers: Sequence[Transfer]
    jobs: Sequence[Job]
    troubles: Sequence[Away | Refused]
    unasked: frozenset[str] = frozenset()

    def has_answered(self, service: str) -> bool:
        return service not in {trouble.service for trouble in self.troubles} | self.unasked


async def gallery(
    neighbours: Neighbours, tenant_id: str, wanted: Filter, asked: AskedTier, after: str | None, limit: int
) -> Gallery:
    """From the edge, which knows best what is missing; from the cloud where the edge is away or it was asked for."""
    if asked == "cloud" or not neighbours.knows(EDGE):
        return await _from_cloud(neighbours, tenant_id, wanted, after, limit, "As the cloud has it.")
    try:
        page = await neighbours.get(
            EDGE, SESSIONS, EdgePage, tenant_id=tenant_id, after=after, limit=limit, **_question(wanted),
            **({"incomplete": "true"} if wanted.is_incomplete else {}),
        )  # fmt: skip
    except Away as error:
        if asked == "edge" or after is not None or not neighbours.knows(CLOUD):
            raise
        return await _from_cloud(
            neighbours, tenant_id, wanted, after, limit, f"{error.service} does not answer: this is what the cloud has."
        )
    begun = [session.start_at or session.first_heard_at for session in page.sessions]
    in_cloud = await _known_in_cloud(neighbours, tenant_id, begun) if begun else None
    note = (
        "As the edge has it."
        if in_cloud is not None
        else "As the edge has it. Whether the cloud has it too is not known just now."
    )
    return Gallery(
        "edge",
        [card_of_edge(session, in_cloud) for session in page.sessions],
        page.next,
        note if begun else "As the edge has it.",
    )


async def one_session(neighbours: Neighbours, tenant_id: str, session_id: UUID) -> Answered:
    troubles: list[Away | Refused] = []
    unasked = frozenset(service for service in (EDGE, CLOUD) if not neighbours.knows(service))

    async def or_none(answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except Away as error:
            # A console of one tier alone is not told of the other, which is no trouble either.
            if error.service not in unasked:
                troubles.append(error)
        except Refused as error:
            # A session that one tier does not have (yet, or any more) is no trouble.
            if error.status != 404:
                troubles.append(error)
        return None

    path = f"{SESSIONS}/{session_id}"
    edge, cloud = await asyncio.gather(
        or_none(neighbours.get(EDGE, path, EdgeDetail, tenant_id=tenant_id)),
        or_none(neighbours.get(CLOUD, path, CloudView, tenant_id=tenant_id)),
    )
    known = [picture.media_id for picture in (edge.pictures if edge else ())][:NAMED_MAX]
    transfers, jobs = None, None
    if known:
        transfers, jobs = await asyncio.gather(
            or_none(neighbours.get("edge-sync-forwarder", "/api/v1/sync/media", Transfers, media_id=known)),
            or_none(
                neighbours.get(
                    "edge-vision-inference", "/api/v1/inference/jobs", Jobs, tenant_id=tenant_id, media_id=known
                )
            ),
        )
    return Answered(
        edge=edge,
        cloud=cloud,
        transfers=transfers.entries if transfers else [],
        jobs=jobs.jobs if jobs else [],
        troubles=troubles,
        unasked=unasked,
    )


async def look_again(neighbours: Neighbours, tenant_id: str, media_ids: Sequence[UUID]) -> JobsAccepted:
    body = {"tenant_id": tenant_id, "media_ids": list(media_ids)}
    return await neighbours.post("edge-vision-inference", "/api/v1/inference/jobs", body, JobsAccepted)


async def _from_cloud(
    neighbours: Neighbours, tenant_id: str, wanted: Filter, after: str | None, limit: int, note: str
) -> Gallery:
    page = await neighbours.get(
        CLOUD, SESSIONS, CloudPage, tenant_id=tenant_id, after=after, limit=limit, **_question(wanted)
    )
    cards = [card_of_cloud(session) for session in page.sessions]
    # The cloud has no word for incomplete: what it can tell is which sessions it has not all of.
    shown = [card for card in cards if not wanted.is_incomplete or card.kind in {"warn", "busy"}]
    return Gallery("cloud", shown, page.next, note)


async def _known_in_cloud(neighbours: Neighbours, tenant_id: str, begun: Sequence[datetime]) -> set[UUID] | None:
    """Which of the sessions that began between these times the cloud has heard of. None: it can't be asked."""
    if not neighbours.knows(CLOUD):
        return None
    # The cloud dates a session by its earliest event, which may lie a little before its beginning.
    margin = timedelta(hours=1)
    times = {"from": (min(begun) - margin).isoformat(), "to": (max(begun) + margin).isoformat()}
    try:
        page = await neighbours.get(CLOUD, SESSIONS, CloudPage, tenant_id=tenant_id, limit=COMPARED_MAX, **times)
    except (Away, Refused):
        return None
    return None if page.next is not None else {session.id for session in page.sessions}


def _question(wanted: Filter) -> dict[str, str | None]:
    return {
        "from": wanted.since.isoformat(),
        "to": wanted.until.isoformat(),
        "status": wanted.status,
        "device_id": wanted.device_id,
        "batch_id": wanted.batch_id,
    }

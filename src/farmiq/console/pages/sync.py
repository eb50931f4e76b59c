"""What waits on the edge for the cloud, who is sending it, and when it will be there."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from litestar import Response, get, post
from litestar.response import Redirect
from msgspec import Meta, Struct

from farmiq.console.csv_export import csv_of_structs
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.drain import outlook
from farmiq.console.forms import FORM, Form
from farmiq.console.guarding import session_of
from farmiq.console.neighbours import Away, Refused

SERVICE: Final = "edge-sync-forwarder"
ENTRANCE: Final = "cloud-ingestion"
ROWS: Final = 50
ROWS_SHOWN: Final = 15
ROWS_MAX: Final = 1000
WAITING_COUNTED_MAX: Final = 10_000
"""What the forwarder counts of one tenant."""


class Holder(Struct, frozen=True):
    claimed_by: str
    tenant_id: str
    events: int
    since: datetime | None = None
    lease_expires_at: datetime | None = None


class Link(Struct, frozen=True):
    tenant_id: str
    consecutive_failures: int
    paused_until: datetime | None = None
    last_acked_at: datetime | None = None
    last_error_code: str | None = None
    last_error_at: datetime | None = None


class Detail(Struct, frozen=True):
    holders: list[Holder] = []
    links: list[Link] = []


class Row(Struct, frozen=True):
    id: UUID
    tenant_id: str
    event_type: str
    status: str
    priority: int
    attempt_count: int
    created_at: datetime
    next_attempt_at: datetime
    device_id: str | None = None
    claimed_by: str | None = None
    last_error_code: str | None = None


class Rows(Struct, frozen=True):
    """`waiting` is told when one tenant is asked about."""

    entries: list[Row]
    waiting: int | None = None


class Picture(Struct, frozen=True):
    media_id: UUID
    tenant_id: str
    device_id: str
    size_bytes: int
    state: str
    attempt_count: int
    captured_at: datetime
    last_error_code: str | None = None


class Pictures(Struct, frozen=True):
    pending_count: int = 0
    sending_count: int = 0
    failed_count: int = 0
    entries: list[Picture] = []


class UnclaimForm(Form, frozen=True):
    minutes: Annotated[int, Meta(ge=1, le=100_000)] = 5


def routes(desk: Desk) -> list[Any]:
    @get("/sync")
    async def sync(request: AnyRequest) -> Page:
        return desk.show(request, "sync.html", **await _state(desk, request))

    @get("/sync/state")
    async def state(request: AnyRequest) -> Page:
        return desk.show(request, "sync_state.html", **await _state(desk, request))

    return [sync, state, *_csv_routes(desk), *_actions(desk)]


def _csv_routes(desk: Desk) -> list[Any]:
    @get("/sync/outbox.csv")
    async def outbox_csv(request: AnyRequest) -> Response[bytes]:
        rows = await desk.neighbours.get(
            SERVICE, "/api/v1/sync/outbox", Rows, tenant_id=_scope(desk, request), limit=ROWS_MAX
        )
        return csv_of_structs("outbox", Row, rows.entries, rows_max=ROWS_MAX - 1)

    @get("/sync/links.csv")
    async def links_csv(request: AnyRequest) -> Response[bytes]:
        return csv_of_structs("sync-links", Link, (await _detail(desk, request)).links)

    @get("/sync/holders.csv")
    async def holders_csv(request: AnyRequest) -> Response[bytes]:
        return csv_of_structs("sync-holders", Holder, (await _detail(desk, request)).holders)

    @get("/sync/pictures.csv")
    async def pictures_csv(request: AnyRequest) -> Response[bytes]:
        found = await _given_up(desk, request, ROWS_MAX)
        return csv_of_structs("pictures-given-up", Picture, found.entries, rows_max=ROWS_MAX - 1)

    return [outbox_csv, links_csv, holders_csv, pictures_csv]


def _actions(desk: Desk) -> list[Any]:
    @post("/sync/trigger", status_code=303)
    async def trigger(request: AnyRequest) -> Redirect:
        async with desk.deed(request, "sync.trigger", SERVICE):
            await desk.neighbours.post(SERVICE, "/api/v1/sync/trigger", {}, dict[str, Any])
        return Redirect("/sync", status_code=303)

    @post("/sync/unclaim", opt={"role": "admin", "all_tenants": True}, status_code=303)
    async def unclaim(request: AnyRequest, data: Annotated[UnclaimForm, FORM]) -> Redirect:
        async with desk.deed_for_all(request, "sync.unclaim", SERVICE, minutes=data.minutes) as deed:
            body = {"olderThanSeconds": data.minutes * 60}
            answer = await desk.neighbours.post(SERVICE, "/api/v1/sync/unclaim-stuck", body, dict[str, Any])
            deed.outcome = f"{answer['unclaimed']} events taken back"
        return Redirect("/sync", status_code=303)

    @post("/sync/pictures/redrive", status_code=303)
    async def redrive_pictures(request: AnyRequest) -> Redirect:
        body = {"tenantId": desk.tenant(request)}
        async with desk.deed(request, "sync.pictures.redrive", SERVICE) as deed:
            answer = await desk.neighbours.post(SERVICE, "/api/v1/sync/media/redrive", body, dict[str, Any])
            deed.outcome = f"{answer['redriven']} pictures tried again"
        return Redirect("/sync", status_code=303)

    return [trigger, unclaim, redrive_pictures]


async def _state(desk: Desk, request: AnyRequest) -> dict[str, Any]:
    """The numbers come from the pulse, so that many who look cost no more than one."""
    beat = desk.pulse.of(SERVICE)
    told = beat.told if beat else {}
    detail, pictures, rows, trouble = Detail(), Pictures(), Rows([]), ""
    try:
        detail = await _detail(desk, request)
        pictures = await _given_up(desk, request, ROWS)
        rows = await desk.neighbours.get(
            SERVICE, "/api/v1/sync/outbox", Rows, status="pending", tenant_id=_scope(desk, request), limit=ROWS
        )
    except (Away, Refused) as error:
        trouble = error.reason if isinstance(error, Away) else str(error)
    waiting = rows.waiting if rows.waiting is not None else int(told.get("pending_count", 0))
    return {
        "beat": beat,
        "told": told,
        "trouble": trouble,
        "outlook": outlook(desk.pulse.history(SERVICE, "pending_count")),
        "holders": detail.holders,
        "links": [
            (link, link_state(link, desk.clock.now(), is_cloud_away=_is_cloud_away(desk))) for link in detail.links
        ],
        "pictures": pictures,
        "failed_pictures": pictures.entries,
        "rows": rows.entries[:ROWS_SHOWN],
        "more": max(0, waiting - ROWS_SHOWN),
        "is_more_at_least": waiting >= WAITING_COUNTED_MAX,
        "scope": _scope(desk, request),
        "csv_rows_max": ROWS_MAX - 1,
    }


async def _detail(desk: Desk, request: AnyRequest) -> Detail:
    return await desk.neighbours.get(SERVICE, "/api/v1/sync/detail", Detail, tenant_id=_scope(desk, request))


async def _given_up(desk: Desk, request: AnyRequest, limit: int) -> Pictures:
    return await desk.neighbours.get(
        SERVICE, "/api/v1/sync/media", Pictures, status="failed", tenant_id=_scope(desk, request), limit=limit
    )


def link_state(link: Link, now: datetime, *, is_cloud_away: bool) -> tuple[str, str]:
    """Kind and word. Nothing may have failed yet because nothing was sent since the cloud went away."""
    if link.consecutive_failures:
        return ("bad", "down, waiting") if link.paused_until and link.paused_until > now else ("busy", "trying")
    return ("warn", "not tried since the cloud is away") if is_cloud_away else ("good", "up")


def _is_cloud_away(desk: Desk) -> bool:
    beat = desk.pulse.of(ENTRANCE)
    return beat is not None and beat.away_since is not None


def _scope(desk: Desk, request: AnyRequest) -> str | None:
    """Somebody who may see everything sees all that waits; the others see what is of the tenant that they look at."""
    return None if session_of(request).person.sees_all else desk.tenant(request)


PLACE = Place("sync", "Sync", "/sync", routes)

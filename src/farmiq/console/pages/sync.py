"""What waits on the edge for the cloud, who is sending it, and when it will be there."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from litestar import Response, get, post
from litestar.response import Redirect
from msgspec import Meta, Struct

from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.drain import outlook
from farmiq.console.forms import FORM, Form
from farmiq.console.guarding import session_of
from farmiq.console.neighbours import Away, Refused

SERVICE: Final = "edge-sync-forwarder"
ROWS: Final = 50
ROWS_MAX: Final = 1000


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
    entries: list[Row]


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

    @get("/sync/outbox.csv")
    async def outbox_csv(request: AnyRequest) -> Response[bytes]:
        rows = await desk.neighbours.get(SERVICE, "/api/v1/sync/outbox", Rows, limit=ROWS_MAX)
        fields = Row.__struct_fields__
        own = _of_tenant(request, rows.entries)
        return csv_response("outbox", fields, ([getattr(row, field) for field in fields] for row in own))

    return [sync, state, outbox_csv, *_actions(desk)]


def _actions(desk: Desk) -> list[Any]:
    @post("/sync/trigger", status_code=303)
    async def trigger(request: AnyRequest) -> Redirect:
        async with desk.deed(request, "sync.trigger", SERVICE):
            await desk.neighbours.post(SERVICE, "/api/v1/sync/trigger", {}, dict[str, Any])
        return Redirect("/sync", status_code=303)

    @post("/sync/unclaim", opt={"role": "admin"}, status_code=303)
    async def unclaim(request: AnyRequest, data: Annotated[UnclaimForm, FORM]) -> Redirect:
        async with desk.deed(request, "sync.unclaim", SERVICE, minutes=data.minutes) as deed:
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
    detail, pictures, rows, trouble = Detail(), Pictures(), Rows([]), ""
    try:
        detail = await desk.neighbours.get(SERVICE, "/api/v1/sync/detail", Detail)
        pictures = await desk.neighbours.get(SERVICE, "/api/v1/sync/media", Pictures, limit=ROWS)
        rows = await desk.neighbours.get(SERVICE, "/api/v1/sync/outbox", Rows, status="pending", limit=ROWS)
    except (Away, Refused) as error:
        trouble = error.reason if isinstance(error, Away) else str(error)
    return {
        "beat": beat,
        "told": beat.told if beat else {},
        "trouble": trouble,
        "outlook": outlook(desk.pulse.history(SERVICE, "pending_count")),
        "holders": _of_tenant(request, detail.holders),
        "links": _of_tenant(request, detail.links),
        "pictures": pictures,
        "failed_pictures": [one for one in _of_tenant(request, pictures.entries) if one.state == "failed"],
        "rows": _of_tenant(request, rows.entries),
    }


def _of_tenant(request: AnyRequest, rows: list[Any]) -> list[Any]:
    """Somebody who may see everything sees all that waits; the others see what is theirs."""
    person = session_of(request).person
    return [row for row in rows if person.may_see(row.tenant_id)] if person.tenants else rows


PLACE = Place("sync", "Sync", "/sync", routes)

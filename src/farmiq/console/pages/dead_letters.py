"""What was given up: why, how much of it, and the way back. On the edge (outbox) and in the cloud (RabbitMQ), and what the
gateway never took."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from litestar import Response, get, post
from litestar.params import FromQuery
from msgspec import Meta, Struct

from farmiq.console.csv_export import csv_of_structs, csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.forms import FORM, Form, Line
from farmiq.console.guarding import session_of
from farmiq.console.neighbours import Away, Refused
from farmiq.kit.http_server import ApiError

FORWARDER: Final = "edge-sync-forwarder"
ENTRANCE: Final = "cloud-ingestion"
GATEWAY: Final = "edge-ingress-gateway"
SHOWN: Final = 20
CSV_ROWS_MAX: Final = 1000
CONFIRMATION: Final = "discard"


class EdgeGroup(Struct, frozen=True):
    error_code: str
    event_type: str
    events: int
    first_failed_at: datetime | None = None
    last_failed_at: datetime | None = None
    example: str = ""


class EdgeGroups(Struct, frozen=True):
    groups: list[EdgeGroup] = []


class BusGroup(Struct, frozen=True):
    reason: str
    event_type: str
    count: int
    first_failed_at: datetime | None = None
    last_failed_at: datetime | None = None
    example_detail: str = ""


class BusQueue(Struct, frozen=True):
    service: str
    queue: str
    messages: int
    seen: int
    groups: list[BusGroup]


class BusQueues(Struct, frozen=True):
    queues: list[BusQueue] = []


class Letter(Struct, frozen=True):
    reason: str
    detail: str
    attempts: int
    replays: int
    event_type: str
    message_id: str | None = None
    event_id: str | None = None
    tenant_id: str | None = None
    trace_id: str | None = None
    failed_at: datetime | None = None


class LetterView(Struct, frozen=True):
    letter: Letter
    envelope: Any = None
    body: str | None = None

    @property
    def text(self) -> str:
        """What was in it, as text that a page shows and never runs."""
        if self.envelope is not None:
            return msgspec.json.format(msgspec.json.encode(self.envelope), indent=2).decode()
        return f"(not JSON, in base64) {self.body}" if self.body else "(too long to be shown here)"


class Letters(Struct, frozen=True):
    messages: list[LetterView]


class Rejected(Struct, frozen=True):
    id: UUID
    received_at: datetime
    topic: str
    reason: str
    detail: str
    payload_size_bytes: int
    device_id: str | None = None


class RejectedPage(Struct, frozen=True):
    rejected: list[Rejected] = []


class Counts(Struct, frozen=True):
    matched: int
    done: int
    failed: int


class Result(Struct, frozen=True):
    counts: Counts


class EdgeForm(Form, frozen=True):
    """A group of the edge's dead letters. `dry_run` only counts."""

    error_code: Line
    event_type: Line
    dry_run: Line = ""


class BusForm(Form, frozen=True):
    service: Line
    reason: Line
    event_type: Line
    dry_run: Line = ""


class DiscardForm(BusForm, frozen=True, kw_only=True):
    why: Annotated[str, Meta(min_length=3, max_length=300)]
    confirm: Line


def routes(desk: Desk) -> list[Any]:
    @get("/dead-letters")
    async def dead_letters(request: AnyRequest) -> Page:
        edge, edge_trouble = await _ask(desk, FORWARDER, "/api/v1/sync/dlq/groups", EdgeGroups(), desk.tenant(request))
        bus, bus_trouble = await _ask(desk, ENTRANCE, "/api/v1/dlq", BusQueues(), _scope(desk, request))
        refused, gate_trouble = await _ask(
            desk, GATEWAY, "/api/v1/ingress/rejected", RejectedPage(), _scope(desk, request), limit=SHOWN
        )
        return desk.show(
            request, "dead_letters.html", edge=edge.groups, bus=bus.queues, refused=refused.rejected,
            troubles=[trouble for trouble in (edge_trouble, bus_trouble, gate_trouble) if trouble],
        )  # fmt: skip

    @get("/dead-letters/messages")
    async def messages(
        request: AnyRequest, service: FromQuery[Line], reason: FromQuery[Line], event_type: FromQuery[Line]
    ) -> Page:
        path = f"/api/v1/dlq/{_checked(service)}/messages"
        found = await desk.neighbours.get(
            ENTRANCE, path, Letters, reason=reason, event_type=event_type, tenant_id=_scope(desk, request), limit=SHOWN
        )
        return desk.show(request, "dead_letters_messages.html", messages=found.messages, service=service, reason=reason)

    @get("/dead-letters.csv")
    async def as_csv(request: AnyRequest) -> Response[bytes]:
        # A service that is away makes an error of it: a file without its part would be taken for all that there is.
        edge = await desk.neighbours.get(
            FORWARDER, "/api/v1/sync/dlq/groups", EdgeGroups, tenant_id=desk.tenant(request)
        )
        bus = await desk.neighbours.get(ENTRANCE, "/api/v1/dlq", BusQueues, tenant_id=_scope(desk, request))
        columns = ("where", "reason", "event_type", "count", "first_failed_at", "last_failed_at", "example")
        rows = [
            (FORWARDER, g.error_code, g.event_type, g.events, g.first_failed_at, g.last_failed_at, g.example)
            for g in edge.groups
        ] + [
            (q.service, g.reason, g.event_type, g.count, g.first_failed_at, g.last_failed_at, g.example_detail)
            for q in bus.queues
            for g in q.groups
        ]
        return csv_response("dead-letters", columns, rows)

    @get("/dead-letters/refused.csv")
    async def refused_csv(request: AnyRequest) -> Response[bytes]:
        found = await desk.neighbours.get(
            GATEWAY, "/api/v1/ingress/rejected", RejectedPage, tenant_id=_scope(desk, request), limit=CSV_ROWS_MAX
        )
        return csv_of_structs("refused-by-the-gateway", Rejected, found.rejected, rows_max=CSV_ROWS_MAX - 1)

    return [dead_letters, messages, as_csv, refused_csv, *_actions(desk)]


def _actions(desk: Desk) -> list[Any]:
    @post("/dead-letters/edge/redrive", status_code=200)
    async def redrive(request: AnyRequest, data: Annotated[EdgeForm, FORM]) -> Page:
        body = {
            "tenantId": desk.tenant(request), "eventType": data.event_type, "errorCode": data.error_code,
            "dryRun": bool(data.dry_run),
        }  # fmt: skip
        detail = {"error_code": data.error_code, "event_type": data.event_type, "dry_run": bool(data.dry_run)}
        async with desk.deed(request, "dead_letters.redrive", FORWARDER, **detail) as deed:
            answer = await desk.neighbours.post(FORWARDER, "/api/v1/sync/redrive", body, dict[str, Any])
            deed.outcome = (
                f"{answer.get('wouldRedrive', 0):,} events would be sent again"
                if data.dry_run
                else f"{answer['redriven']:,} events are sent again"
            )
        return desk.show(request, "dead_letters_outcome.html", said=deed.outcome, is_dry_run=bool(data.dry_run))

    @post("/dead-letters/bus/replay", status_code=200)
    async def replay(request: AnyRequest, data: Annotated[BusForm, FORM]) -> Page:
        return await _carry_out(desk, request, "replay", data, {})

    @post("/dead-letters/bus/discard", opt={"role": "admin"}, status_code=200)
    async def discard(request: AnyRequest, data: Annotated[DiscardForm, FORM]) -> Page:
        if not data.dry_run and data.confirm != CONFIRMATION:
            raise ApiError(422, "not_confirmed", f"Type {CONFIRMATION} to discard; nothing was done")
        return await _carry_out(desk, request, "discard", data, {"confirm": True}, why=data.why)

    return [redrive, replay, discard]


async def _carry_out(
    desk: Desk, request: AnyRequest, kind: str, form: BusForm, more: dict[str, Any], **detail: str
) -> Page:
    order = {
        "reason": form.reason, "event_type": form.event_type, "tenant_id": _scope(desk, request),
        "dry_run": bool(form.dry_run),
    }  # fmt: skip
    path = f"/api/v1/dlq/{_checked(form.service)}/{kind}"
    written_down = desk.deed_for_all if order["tenant_id"] is None else desk.deed
    async with written_down(request, f"dead_letters.{kind}", form.service, **order, **detail) as deed:
        counts = (await desk.neighbours.post(ENTRANCE, path, order | more, Result)).counts
        done = {"replay": "put back into the queue", "discard": "discarded"}[kind]
        deed.outcome = (
            f"{counts.matched:,} messages would be {done}"
            if form.dry_run
            else f"{counts.done:,} messages were {done}, {counts.failed:,} failed"
        )
    return desk.show(request, "dead_letters_outcome.html", said=deed.outcome, is_dry_run=bool(form.dry_run))


async def _ask(
    desk: Desk, service: str, path: str, otherwise: Any, tenant_id: str | None, **more: Any
) -> tuple[Any, str]:
    """What there is, or what there is when nothing is known, with why."""
    try:
        return await desk.neighbours.get(service, path, type(otherwise), tenant_id=tenant_id, **more), ""
    except (Away, Refused) as error:
        return otherwise, str(error)


def _scope(desk: Desk, request: AnyRequest) -> str | None:
    """Messages that nobody could read belong to no tenant: they are shown to those who may see everything."""
    return desk.tenant(request) if session_of(request).person.tenants else None


def _checked(service: str) -> str:
    if not service.replace("-", "").isalnum():
        raise ApiError(404, "no_such_service", "There is no such service")
    return service


PLACE = Place("dead_letters", "Dead letters", "/dead-letters", routes)

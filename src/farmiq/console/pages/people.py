"""Who may use the console, and what they did."""

import asyncio
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import FromQuery
from litestar.response import Redirect
from msgspec import Meta

from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.forms import FORM, Form, Line
from farmiq.console.guarding import session_of
from farmiq.console.passwords import PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, hash_password
from farmiq.console.roles import ROLES, Role
from farmiq.console.store import Deed
from farmiq.kit.http_server import ApiError

TRAIL_ROWS = 200
TRAIL_ROWS_MAX = 100_000
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z"


class AddForm(Form, frozen=True):
    name: Annotated[str, Meta(pattern=NAME)]
    role: Role
    password: Annotated[str, Meta(min_length=PASSWORD_CHARS_MIN, max_length=PASSWORD_CHARS_MAX)]
    tenants: Line = ""


class RemoveForm(Form, frozen=True):
    name: Line


def routes(desk: Desk) -> list[Any]:
    @get("/people")
    async def people(request: AnyRequest, before: FromQuery[int | None] = None) -> Page:
        deeds = _trail(desk, request, before, TRAIL_ROWS)
        older = deeds[-1].number if len(deeds) == TRAIL_ROWS else None
        return desk.show(request, "people.html", people=desk.store.people(), deeds=deeds, roles=ROLES, older=older)

    @get("/people/audit.csv")
    async def audit_csv(request: AnyRequest) -> Response[bytes]:
        deeds = _trail(desk, request, None, TRAIL_ROWS_MAX)
        columns = ("number", "at", "name", "tenant_id", "action", "subject", "detail", "outcome")
        rows = ((d.number, d.at, d.name, d.tenant_id, d.action, d.subject, d.detail, d.outcome) for d in deeds)
        return csv_response("audit", columns, rows)

    @post("/people/add", opt={"role": "admin"}, status_code=303)
    async def add(request: AnyRequest, data: Annotated[AddForm, FORM]) -> Redirect:
        tenants = [part.strip() for part in data.tenants.split(",") if part.strip()]
        if unknown := set(tenants) - set(desk.tenants(request)):
            raise ApiError(422, "unknown_tenant", f"This console has no tenant {', '.join(sorted(unknown))}")
        async with desk.deed(request, "person.add", data.name, role=data.role, tenants=tenants):
            password_hash = await asyncio.to_thread(hash_password, data.password)
            desk.store.add_person(data.name, data.role, tenants, password_hash, desk.clock.now())
        return Redirect("/people", status_code=303)

    @post("/people/remove", opt={"role": "admin"}, status_code=303)
    async def remove(request: AnyRequest, data: Annotated[RemoveForm, FORM]) -> Redirect:
        if data.name == session_of(request).person.name:
            raise ApiError(422, "own_account", "Nobody removes themselves: another admin has to do it")
        async with desk.deed(request, "person.remove", data.name):
            desk.store.remove_person(data.name)
        return Redirect("/people", status_code=303)

    return [people, audit_csv, add, remove]


def _trail(desk: Desk, request: AnyRequest, before: int | None, limit: int) -> list[Deed]:
    tenants = session_of(request).person.tenants
    return desk.store.deeds(tenants or None, before=before, limit=limit)


PLACE = Place("people", "People", "/people", routes)

"""Who may use the console, and what they did. For admins; one of some tenants sees the people of these tenants only."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Any, Final

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
from farmiq.console.store import Deed, Person, PersonUnknown, Store
from farmiq.kit.http_server import ApiError

TRAIL_ROWS = 200
TRAIL_PAGE = 5000
ADMIN: Final = {"role": "admin"}
AUDIT_COLUMNS: Final = ("number", "at", "name", "tenant_id", "action", "subject", "detail", "outcome")
NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z"


class AddForm(Form, frozen=True):
    name: Annotated[str, Meta(pattern=NAME)]
    role: Role
    password: Annotated[str, Meta(min_length=PASSWORD_CHARS_MIN, max_length=PASSWORD_CHARS_MAX)]
    tenants: Line = ""


class RemoveForm(Form, frozen=True):
    name: Line


def routes(desk: Desk) -> list[Any]:
    @get("/people", opt=ADMIN)
    async def people(request: AnyRequest, before: FromQuery[int | None] = None) -> Page:
        deeds = desk.store.deeds(session_of(request).person, before=before, limit=TRAIL_ROWS)
        older = deeds[-1].number if len(deeds) == TRAIL_ROWS else None
        return desk.show(
            request, "people.html", people=_answered_for(desk, request), deeds=deeds, roles=ROLES, older=older
        )

    @get("/people.csv", opt=ADMIN)
    async def people_csv(request: AnyRequest) -> Response[bytes]:
        rows = ((one.name, one.role, ", ".join(one.tenants), one.added_at) for one in _answered_for(desk, request))
        return csv_response("people", ("name", "role", "tenants", "added_at"), rows)

    @get("/people/audit.csv", opt=ADMIN)
    async def audit_csv(request: AnyRequest) -> Response[bytes]:
        rows = (
            (d.number, d.at, d.name, d.tenant_id, d.action, d.subject, d.detail, d.outcome)
            for d in _whole_trail(desk.store, session_of(request).person)
        )
        return csv_response("audit", AUDIT_COLUMNS, rows)

    @post("/people/add", opt=ADMIN, status_code=303)
    async def add(request: AnyRequest, data: Annotated[AddForm, FORM]) -> Redirect:
        tenants = _tenants_given(desk, request, data.tenants)
        written_down = _written_down(desk, request)
        async with written_down(request, "person.add", data.name, role=data.role, tenants=tenants):
            password_hash = await asyncio.to_thread(hash_password, data.password)
            desk.store.add_person(data.name, data.role, tenants, password_hash, desk.clock.now())
        return Redirect("/people", status_code=303)

    @post("/people/remove", opt=ADMIN, status_code=303)
    async def remove(request: AnyRequest, data: Annotated[RemoveForm, FORM]) -> Redirect:
        person = session_of(request).person
        if data.name == person.name:
            raise ApiError(422, "own_account", "Nobody removes themselves: another admin has to do it")
        async with _written_down(desk, request)(request, "person.remove", data.name):
            found = desk.store.person(data.name)
            if found is None or not person.answers_for(found):
                raise PersonUnknown(f"There is no person {data.name}")
            desk.store.remove_person(data.name)
        return Redirect("/people", status_code=303)

    return [people, people_csv, audit_csv, add, remove]


def _written_down(desk: Desk, request: AnyRequest) -> Any:
    """Who sees every tenant lets people in for any of them: that is of no tenant in particular."""
    return desk.deed_for_all if session_of(request).person.sees_all else desk.deed


def _answered_for(desk: Desk, request: AnyRequest) -> list[Person]:
    person = session_of(request).person
    return [one for one in desk.store.people() if person.answers_for(one)]


def _tenants_given(desk: Desk, request: AnyRequest, text: str) -> list[str]:
    """Nobody gives more than they have: where none is named, all that the giver has, which is every tenant only for those who
    may see every tenant."""
    named = [part.strip() for part in text.split(",") if part.strip()]
    if unknown := set(named) - set(desk.tenants(request)):
        raise ApiError(422, "unknown_tenant", f"This console has no tenant {', '.join(sorted(unknown))}")
    return named or list(session_of(request).person.tenants)


def _whole_trail(store: Store, person: Person) -> Iterator[Deed]:
    before: int | None = None
    while page := store.deeds(person, before=before, limit=TRAIL_PAGE):
        yield from page
        before = page[-1].number


PLACE = Place("people", "People", "/people", routes, "admin")

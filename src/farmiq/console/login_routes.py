"""Logging in and out, one's own password, and how one likes to look at the pages."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.response import Redirect
from msgspec import Meta

from farmiq.console.attempts import LoginAttempts
from farmiq.console.desk import TENANT_COOKIE, THEME_COOKIE, THEMES, AnyRequest, Desk, Page
from farmiq.console.forms import FORM, Form, Line
from farmiq.console.guarding import COOKIE, OtherTenant, begin_session, local_path, session_of, token_hash
from farmiq.console.passwords import (
    NOBODY,
    PASSWORD_CHARS_MAX,
    PASSWORD_CHARS_MIN,
    hash_password,
    is_outdated,
    is_password,
)
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger

log = get_logger(__name__)

UNKNOWN = "(somebody unknown)"
REMEMBERED_SECONDS = 366 * 86_400

Password = Annotated[str, Meta(max_length=PASSWORD_CHARS_MAX)]


class LoginForm(Form, frozen=True):
    name: Annotated[str, Meta(max_length=64)]
    password: Password
    next: Line = "/"


class PasswordForm(Form, frozen=True):
    old: Password
    new: Password


class ChoiceForm(Form, frozen=True):
    """What the switchers in the head of each page send."""

    value: Line
    next: Line = "/"


def login_routes(desk: Desk) -> list[Any]:
    attempts = LoginAttempts()

    @get("/login", opt={"open": True})
    async def login_page(request: AnyRequest) -> Page:
        return desk.show_to_anybody(
            request, "login.html", next=local_path(request.query_params.get("next", "/")), said="", name=""
        )

    @post("/login", opt={"open": True}, status_code=200)
    async def login(request: AnyRequest, data: Annotated[LoginForm, FORM]) -> Page | Redirect:
        address = request.client.host if request.client else ""
        now = desk.clock.monotonic()
        if (wait := attempts.wait_seconds(data.name, address, now)) > 0:
            return _refused(desk, request, data, 429, f"Too many wrong passwords. Try again in {wait:.0f} s.")
        attempts.begun(data.name, address, now)
        known = desk.store.password_hash(data.name)
        is_right = await asyncio.to_thread(is_password, data.password, known or NOBODY)
        if not (is_right and known):
            # What is typed into the wrong field may be a password: a name that nobody has is written down nowhere.
            name = data.name if known else UNKNOWN
            log.warning("login_refused", name=name, address=address)
            desk.store.note_deed(name, None, "login", address, {}, "refused", desk.clock.now())
            return _refused(desk, request, data, 401, "That name and password do not belong together.")
        attempts.succeeded(data.name, address, now)
        if is_outdated(known):
            renewed = await asyncio.to_thread(hash_password, data.password)
            desk.store.renew_hash(data.name, known, renewed)
        desk.store.note_deed(data.name, None, "login", address, {}, "done", desk.clock.now())
        lasts = timedelta(hours=desk.settings.console_session_hours)
        cookie = begin_session(desk.store, desk.clock, data.name, lasts, is_https=request.url.scheme == "https")
        return Redirect(local_path(data.next), cookies=[cookie], status_code=303)

    @post("/logout", opt={"role": "viewer"}, status_code=303)
    async def logout(request: AnyRequest) -> Redirect:
        desk.store.end_session(token_hash(request.cookies[COOKIE]))
        address = request.client.host if request.client else ""
        desk.store.note_deed(session_of(request).person.name, None, "logout", address, {}, "done", desk.clock.now())
        return Redirect("/login", cookies=[Cookie(COOKIE, value="", path="/", max_age=0)], status_code=303)

    return [login_page, login, logout, *_own_routes(desk)]


def _own_routes(desk: Desk) -> list[Any]:
    @get("/me")
    async def me(request: AnyRequest) -> Page:
        return desk.show(request, "me.html", said="")

    @post("/me/password", opt={"role": "viewer"}, status_code=200)
    async def change_password(request: AnyRequest, data: Annotated[PasswordForm, FORM]) -> Page | Redirect:
        name = session_of(request).person.name
        if len(data.new) < PASSWORD_CHARS_MIN:
            return desk.show(
                request, "me.html", status=422, said=f"A password has at least {PASSWORD_CHARS_MIN} characters."
            )
        known = desk.store.password_hash(name)
        if not await asyncio.to_thread(is_password, data.old, known or NOBODY):
            return desk.show(request, "me.html", status=422, said="The old password is not right.")
        async with desk.deed(request, "password.change", name):
            desk.store.set_password(name, await asyncio.to_thread(hash_password, data.new))
        return Redirect("/login", status_code=303)

    @post("/me/theme", opt={"role": "viewer"}, status_code=303)
    async def choose_theme(data: Annotated[ChoiceForm, FORM]) -> Redirect:
        if data.value not in THEMES:
            raise ApiError(422, "bad_theme", f"A theme is one of {', '.join(THEMES)}")
        return _remembered(THEME_COOKIE, data)

    @post("/me/tenant", opt={"role": "viewer"}, status_code=303)
    async def choose_tenant(request: AnyRequest, data: Annotated[ChoiceForm, FORM]) -> Redirect:
        if data.value not in desk.tenants(request):
            raise OtherTenant
        return _remembered(TENANT_COOKIE, data)

    return [me, change_password, choose_theme, choose_tenant]


def _remembered(name: str, form: ChoiceForm) -> Redirect:
    cookie = Cookie(name, value=form.value, path="/", httponly=True, samesite="strict", max_age=REMEMBERED_SECONDS)
    return Redirect(local_path(form.next), cookies=[cookie], status_code=303)


def _refused(desk: Desk, request: AnyRequest, form: LoginForm, status: int, said: str) -> Response[str]:
    return desk.show_to_anybody(
        request, "login.html", status=status, said=said, next=local_path(form.next), name=form.name
    )

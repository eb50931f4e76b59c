"""Who is asking, may they, and did they mean it: sessions by cookie, roles, CSRF tokens, headers that a browser obeys.

Every route needs a session. Reading needs a viewer, changing anything an operator, unless the route says otherwise with
`opt={"role": "admin"}`; one that touches what belongs to every tenant says `opt={"all_tenants": True}`; a route for
everybody says `opt={"open": True}`.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie
from litestar.handlers import BaseRouteHandler

from farmiq.console.roles import Role, may
from farmiq.console.store import Session, Store
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError

COOKIE: Final = "farmiq_session"
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

Connection = ASGIConnection[Any, Any, Any, Any]


class NotLoggedIn(ApiError):
    """The page asks to log in first."""

    def __init__(self, next_path: str) -> None:
        super().__init__(401, "not_logged_in", "Log in first")
        self.next_path = next_path


class Forbidden(ApiError):
    """This person may not do that."""

    def __init__(self, needed: Role) -> None:
        super().__init__(403, "forbidden", f"This needs somebody with the role {needed}")


class OtherTenant(ApiError):
    """This person may not see that tenant."""

    def __init__(self) -> None:
        super().__init__(403, "forbidden", "This person may not see that tenant")


class NotForAll(ApiError):
    """What this touches is of every tenant, and this person may see some of them."""

    def __init__(self) -> None:
        super().__init__(403, "forbidden", "This is about every tenant: it needs somebody who may see all of them")


class Forged(ApiError):
    """The request does not come from a page of ours that this person has open."""

    def __init__(self) -> None:
        super().__init__(403, "forged_request", "The page is too old or not ours: load it again and repeat")


def token_hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def guard_with(store: Store, clock: Clock) -> Any:
    async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
        if handler.opt.get("open"):
            return
        session = store.session(token_hash(connection.cookies.get(COOKIE, "")), clock.now())
        if session is None:
            raise NotLoggedIn(_path_to_come_back_to(connection))
        connection.scope["state"]["session"] = session
        is_safe = connection.scope.get("method") in SAFE_METHODS
        needed: Role = handler.opt.get("role", "viewer" if is_safe else "operator")
        if not may(session.person.role, needed):
            raise Forbidden(needed)
        if handler.opt.get("all_tenants") and not session.person.sees_all:
            raise NotForAll
        if (named := connection.query_params.get("tenant")) is not None and not session.person.may_see(str(named)):
            raise OtherTenant
        if not is_safe:
            await _require_csrf(connection, session)

    return guard


def session_of(request: Request[Any, Any, Any]) -> Session:
    session: Session = request.scope["state"]["session"]
    return session


def begin_session(store: Store, clock: Clock, name: str, lasts: timedelta, *, is_https: bool) -> Cookie:
    token = secrets.token_urlsafe(32)
    store.begin_session(name, token_hash(token), secrets.token_urlsafe(24), clock.now(), lasts)
    return Cookie(
        COOKIE, value=token, path="/", httponly=True, samesite="strict", secure=is_https,
        max_age=int(lasts.total_seconds()),
    )  # fmt: skip


def login_address(next_path: str) -> str:
    return f"/login?next={quote(next_path, safe='/')}"


def local_path(text: str) -> str:
    """A path of this site, and never an address of another."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) and "\\" not in text else "/"


def with_headers(response: Response[Any]) -> Response[Any]:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _require_csrf(connection: Connection, session: Session) -> None:
    if connection.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise Forged
    given = connection.headers.get(CSRF_HEADER, "")
    if not given and isinstance(connection, Request):
        given = str((await connection.form()).get(CSRF_FIELD, ""))
    if not hmac.compare_digest(given.encode(), session.csrf.encode()):
        raise Forged


def _path_to_come_back_to(connection: Connection) -> str:
    query = connection.scope["query_string"].decode("latin-1")
    return connection.url.path + (f"?{query}" if query else "")

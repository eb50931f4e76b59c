"""What a page is given to do its work: the services, the pulse, the trail, and a way to show a template."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, Request, Response
from msgspec import Struct

from farmiq import __version__
from farmiq.alerting import AlertStore
from farmiq.console.guarding import OtherTenant, session_of
from farmiq.console.neighbours import Neighbours
from farmiq.console.pulse import Pulse
from farmiq.console.roles import Role, may
from farmiq.console.settings import ConsoleSettings
from farmiq.console.store import Store
from farmiq.console.wording import FILTERS
from farmiq.kit.clock import Clock
from farmiq.kit.http_server import ApiError

TENANT_COOKIE: Final = "farmiq_tenant"
THEME_COOKIE: Final = "farmiq_theme"
THEMES: Final = ("auto", "light", "dark")

AnyRequest = Request[Any, Any, Any]
Page = Response[str]


class Place(Struct, frozen=True):
    """A page in the menu. `routes` makes its handlers."""

    key: str
    title: str
    path: str
    routes: "Callable[[Desk], Sequence[Any]]"
    role: Role = "viewer"
    """Who finds it in the menu."""


class Desk:
    def __init__(
        self,
        settings: ConsoleSettings,
        neighbours: Neighbours,
        pulse: Pulse,
        store: Store,
        alerts: AlertStore,
        clock: Clock,
        places: Sequence[Place],
    ) -> None:
        self.settings = settings
        self.neighbours = neighbours
        self.pulse = pulse
        self.store = store
        self.alerts = alerts
        self.clock = clock
        self.places = tuple(places)
        self._templates = Environment(
            loader=FileSystemLoader(str(files("farmiq.console") / "templates")),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= FILTERS

    def show(self, request: AnyRequest, template: str, *, status: int = 200, **context: Any) -> Page:
        """A page, or a part of one, for whoever is logged in."""
        session = session_of(request)
        page = self._templates.get_template(template).render(
            request=request,
            person=session.person,
            csrf=session.csrf,
            may=lambda role: may(session.person.role, role),
            tenant=self.tenant(request),
            tenants=self.tenants(request),
            places=self.places_for(request),
            theme=theme_of(request),
            version=__version__,
            now=self.clock.now(),
            **{"open_alerts": self.open_alerts(), **context},
        )
        return Response(page, media_type=MediaType.HTML, status_code=status)

    def show_to_anybody(self, request: AnyRequest, template: str, *, status: int = 200, **context: Any) -> Page:
        page = self._templates.get_template(template).render(theme=theme_of(request), version=__version__, **context)
        return Response(page, media_type=MediaType.HTML, status_code=status)

    def places_for(self, request: AnyRequest) -> list[Place]:
        return [place for place in self.places if may(session_of(request).person.role, place.role)]

    def open_alerts(self) -> int:
        return sum(alert.status == "open" for alert in self.alerts.not_closed())

    def tenants(self, request: AnyRequest) -> list[str]:
        person = session_of(request).person
        return [tenant for tenant in self.settings.console_tenants if person.may_see(tenant)]

    def tenant(self, request: AnyRequest) -> str:
        """The one that the address names, else the one that was looked at last, else the first."""
        allowed = self.tenants(request)
        if (named := request.query_params.get("tenant")) is not None:
            if named not in allowed:
                raise OtherTenant
            return str(named)
        if (remembered := request.cookies.get(TENANT_COOKIE)) in allowed:
            return remembered
        if not allowed:
            raise ApiError(403, "forbidden", "This person may see no tenant of this console")
        return allowed[0]

    @asynccontextmanager
    async def deed(self, request: AnyRequest, action: str, subject: str, **detail: Any) -> AsyncIterator["Deed"]:
        """An action of a person: written down before it is carried out, and again with how it ended."""
        async with self._deed(request, self.tenant(request), action, subject, detail) as deed:
            yield deed

    @asynccontextmanager
    async def deed_for_all(
        self, request: AnyRequest, action: str, subject: str, **detail: Any
    ) -> AsyncIterator["Deed"]:
        """It is about more than the tenant that they look at: only those who see all of them are told of it."""
        async with self._deed(request, None, action, subject, detail) as deed:
            yield deed

    @asynccontextmanager
    async def _deed(
        self, request: AnyRequest, tenant_id: str | None, action: str, subject: str, detail: dict[str, Any]
    ) -> AsyncIterator["Deed"]:
        name = session_of(request).person.name
        number = self.store.begin_deed(name, tenant_id, action, subject, detail, self.clock.now())
        deed = Deed()
        try:
            yield deed
        except BaseException as error:
            self.store.end_deed(number, f"failed: {error}")
            raise
        self.store.end_deed(number, deed.outcome)


class Deed:
    """How it ended, as the audit trail will say it."""

    def __init__(self) -> None:
        self.outcome = "done"


def theme_of(request: AnyRequest) -> str:
    chosen = request.cookies.get(THEME_COOKIE)
    return chosen if chosen in THEMES else "auto"

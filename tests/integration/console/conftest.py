from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest_asyncio
from litestar import Litestar

from farmiq.alerting import AlertStore
from farmiq.console.desk import Desk
from farmiq.console.main import console_routes, serve
from farmiq.console.neighbours import Neighbours
from farmiq.console.pages import PLACES
from farmiq.console.pulse import Pulse
from farmiq.console.settings import ConsoleSettings
from farmiq.console.store import Store
from farmiq.kit.http_client import open_session
from farmiq.kit.lifecycle import Lifetime
from support.console_visitor import ADMIN_PASSWORD, ConsoleVisitor
from support.service_process import running
from support.told_services import ToldServices, told_services


@asynccontextmanager
async def visited(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[ConsoleVisitor]:
    given = {"CONSOLE_STATE_DIR": str(folder), "CONSOLE_TENANTS": "north,south", "CONSOLE_PASSWORD": ADMIN_PASSWORD}
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        running(serve, "console", given | dict(environ)) as url,
        aiohttp.ClientSession(url, cookie_jar=jar, headers={"accept": "text/html"}) as session,
    ):
        yield ConsoleVisitor(session)


@pytest_asyncio.fixture
async def console(tmp_path: Path) -> AsyncIterator[ConsoleVisitor]:
    """A console of two tenants that knows no other service; everything about logins and rights is there nevertheless."""
    async with visited(tmp_path / "console", {}) as visitor:
        yield visitor


@pytest_asyncio.fixture
async def services() -> AsyncIterator[ToldServices]:
    async with told_services() as found:
        yield found


@pytest_asyncio.fixture
async def told_console(tmp_path: Path, services: ToldServices) -> AsyncIterator[ConsoleVisitor]:
    """A console of two tenants whose services answer what a test has them answer, and write down what they are asked."""
    async with visited(tmp_path / "console", services.environ()) as visitor:
        yield visitor


@pytest_asyncio.fixture
async def all_routes(tmp_path: Path) -> AsyncIterator[Litestar]:
    """Every route of the console, to look at."""
    life = Lifetime("console")
    settings = ConsoleSettings(console_state_dir=str(tmp_path), console_tenants=("north",))
    async with open_session("console") as session:
        neighbours = Neighbours(session, settings.addresses(), settings.tokens())
        store, alerts = Store(tmp_path / "routes"), AlertStore(tmp_path / "routes")
        desk = Desk(settings, neighbours, Pulse(neighbours, life.clock), store, alerts, life.clock, PLACES)
        yield Litestar(console_routes(desk, life))

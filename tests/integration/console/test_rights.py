"""Who may do what, asked of every route that there is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from litestar import Litestar

from farmiq.alerting import AlertStore
from farmiq.console.desk import Desk
from farmiq.console.guarding import SAFE_METHODS
from farmiq.console.main import console_routes
from farmiq.console.neighbours import Neighbours
from farmiq.console.pages import PLACES
from farmiq.console.pulse import Pulse
from farmiq.console.settings import ConsoleSettings
from farmiq.console.store import Store
from farmiq.kit.http_client import open_session
from farmiq.kit.lifecycle import Lifetime
from support.console_visitor import ConsoleVisitor


@pytest_asyncio.fixture
async def changing_routes(tmp_path: Path) -> AsyncIterator[list[tuple[str, str]]]:
    """Every route of the console that changes something, with the role that it needs."""
    life = Lifetime("console")
    settings = ConsoleSettings(console_state_dir=str(tmp_path), console_tenants=("north",))
    async with open_session("console") as session:
        neighbours = Neighbours(session, settings.addresses(), settings.tokens())
        store, alerts = Store(tmp_path / "routes"), AlertStore(tmp_path / "routes")
        desk = Desk(settings, neighbours, Pulse(neighbours, life.clock), store, alerts, life.clock, PLACES)
        yield _changing(Litestar(console_routes(desk, life)))


def _changing(app: Litestar) -> list[tuple[str, str]]:
    handlers = [(route, handler) for route in app.routes for handler in getattr(route, "route_handlers", [])]
    return sorted(
        (f"{method} {route.path_format}", handler.opt.get("role", "operator"))
        for route, handler in handlers
        for method in set(handler.http_methods) - SAFE_METHODS
        if not handler.opt.get("open")
    )


async def test_a_viewer_can_change_nothing_but_what_is_their_own(
    console: ConsoleVisitor, changing_routes: list[tuple[str, str]]
) -> None:
    assert len(changing_routes) >= 10
    await console.become("viewer")
    token = await console.csrf()
    for route, needed in changing_routes:
        if needed == "viewer":
            assert route.split()[1].startswith(("/me", "/logout")), f"{route} is open to viewers"
            continue
        status, page, _ = await console.post(_example(route), {"csrf": token})
        assert status == 403, f"{route} gave {status}: {page[:300]}"


async def test_an_operator_lets_nobody_in(console: ConsoleVisitor, changing_routes: list[tuple[str, str]]) -> None:
    await console.become("operator")
    token = await console.csrf()
    for route, needed in changing_routes:
        if needed == "admin":
            assert (await console.post(_example(route), {"csrf": token}))[0] == 403, route


async def test_nobody_without_a_login_changes_anything(
    console: ConsoleVisitor, changing_routes: list[tuple[str, str]]
) -> None:
    for route, _ in changing_routes:
        assert (await console.post(_example(route), {}))[0] == 303, route


async def test_a_person_of_one_tenant_is_shown_no_other(console: ConsoleVisitor) -> None:
    await console.become("operator", "south")
    assert (await console.get("/people?tenant=south"))[0] == 200
    assert (await console.get("/people?tenant=north"))[0] == 403
    assert (await console.act("/me/tenant", value="north"))[0] == 403
    status, page, _ = await console.get("/people", cookie="farmiq_tenant=north")
    assert (status, ">south<" in page) == (200, True)


async def test_nobody_removes_themselves(console: ConsoleVisitor) -> None:
    await console.log_in()
    assert (await console.act("/people/remove", name="admin"))[0] == 422
    assert (await console.act("/people/remove", name="nobody"))[0] == 422
    status, page, _ = await console.get("/people")
    assert status == 200
    assert "person.remove" in page
    assert "failed: There is no person nobody" in page


@pytest.mark.parametrize("name", ["", "a b", "<script>", "x" * 65, "../x"])
async def test_names_that_could_be_mistaken_are_refused(console: ConsoleVisitor, name: str) -> None:
    await console.log_in()
    assert (await console.act("/people/add", name=name, role="viewer", password="long enough password"))[0] == 400


def _example(route: str) -> str:
    path = route.split()[1]
    return "/".join(
        "00000000-0000-7000-8000-000000000000" if part.startswith("{") else part for part in path.split("/")
    )

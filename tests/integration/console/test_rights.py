"""Who may do what, asked of every route that there is."""

import pytest
from litestar import Litestar

from farmiq.console.guarding import SAFE_METHODS
from support.console_visitor import OTHER_PASSWORD, ConsoleVisitor


@pytest.fixture
def changing_routes(all_routes: Litestar) -> list[tuple[str, str]]:
    """Every route of the console that changes something, with the role that it needs."""
    return _changing(all_routes)


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
    assert (await console.get("/health?tenant=south"))[0] == 200
    assert (await console.get("/health?tenant=north"))[0] == 403
    assert (await console.act("/me/tenant", value="north"))[0] == 403
    status, page, _ = await console.get("/health", cookie="farmiq_tenant=north")
    assert (status, ">south<" in page) == (200, True)


async def test_an_admin_of_one_tenant_gives_no_more_than_they_have(console: ConsoleVisitor) -> None:
    await console.become("admin", "south")
    form = {"role": "admin", "password": OTHER_PASSWORD}
    assert (await console.act("/people/add", name="sam", tenants="", **form))[0] == 303
    assert (await console.act("/people/add", name="eve", tenants="north", **form))[0] == 422
    assert (await console.act("/people/add", name="eve", tenants="north,south", **form))[0] == 422
    await console.act("/logout")
    await console.log_in("sam", OTHER_PASSWORD)
    assert (await console.get("/health?tenant=north"))[0] == 403, "empty means all that the giver has"


async def test_an_admin_of_one_tenant_knows_and_removes_nobody_else(console: ConsoleVisitor) -> None:
    await console.log_in()
    for name, tenants in (("nora", "north"), ("both", "north,south"), ("sue", "south")):
        form = {"name": name, "role": "viewer", "tenants": tenants, "password": OTHER_PASSWORD}
        assert (await console.act("/people/add", **form))[0] == 303
    await console.act("/logout")
    await console.become("admin", "south")
    _, page, _ = await console.get("/people")
    _, listed, _ = await console.get("/people.csv")
    _, trail, _ = await console.get("/people/audit.csv")
    for text in (page, listed, trail):
        assert "nora" not in text
        assert "both" not in text
    assert "sue" in page
    assert "sue,viewer,south" in listed
    for name in ("admin", "nora", "both"):
        status, said, _ = await console.act("/people/remove", name=name)
        assert (status, f"There is no person {name}" in said) == (422, True)
    assert (await console.act("/people/remove", name="sue"))[0] == 303
    await console.act("/logout")
    await console.log_in()
    _, listed, _ = await console.get("/people.csv")
    assert [line.split(",")[0] for line in listed.splitlines()[1:]] == ["admin", "both", "nora", "some-admin"]


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_people_are_for_admins(console: ConsoleVisitor, role: str) -> None:
    await console.become(role)
    for path in ("/people", "/people.csv", "/people/audit.csv"):
        assert (await console.get(path))[0] == 403
    _, page, _ = await console.get("/health")
    assert 'href="/people"' not in page
    assert "Nothing is called" in (await console.get("/search?q=people"))[1]


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

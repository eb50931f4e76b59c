"""Somebody of one tenant, at every route that there is: sees and touches nothing of another one."""

from pathlib import Path

import pytest
from litestar import Litestar

from farmiq.console.guarding import SAFE_METHODS
from support.console_visitor import ConsoleVisitor
from support.told_services import ToldServices

OF_EVERYBODY = {
    "/api/health", "/api/ready", "/metrics", "/api/v1/ingress/stats", "/api/v1/telemetry/stats", "/api/v1/sync/state",
    "/api/v1/ingestion/stats", "/api/v1/sync/room", "/api/v1/sync/trigger",
}  # fmt: skip
"""What the services tell of the whole farm, and where there is no tenant to ask for."""
OF_EVERYBODY_ON_THE_FIRST_PAGE = {("/api/v1/sync/detail", "")}
"""Asked once for all who look at the overview, which shows only what is of their tenant."""
QUERY = (
    "device_id=node-1&at=2026-01-01T00:00:00Z&service=a&reason=b&event_type=c&device=node-1&metric=temperature&q=node"
)
FORM = {
    "device_id": "node-9", "farm_id": "farm", "barn_id": "barn", "confirmation": "00000000-0000-7000-8000-000000000000",
    "reason": "why", "why": "because", "confirm": "discard", "error_code": "a", "event_type": "b", "service": "c",
    "source": "edge", "id": "00000000-0000-7000-8000-000000000000", "name": "nobody", "role": "viewer", "value": "auto",
    "old": "x", "new": "y",
}  # fmt: skip


def _routes(app: Litestar) -> list[tuple[str, str]]:
    found = [
        (method, route.path_format)
        for route in app.routes
        for handler in getattr(route, "route_handlers", [])
        for method in set(handler.http_methods) - {"HEAD", "OPTIONS"}
        if not handler.opt.get("open") and not route.path_format.startswith("/static")
    ]
    return sorted(one for one in found if one[1] not in {"/live", "/logout", "/me/password", "/people/add"})


def _example(path: str) -> str:
    return "/".join(
        "00000000-0000-7000-8000-000000000000" if part.startswith("{") else part for part in path.split("/")
    )


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_nobody_limited_to_a_tenant_asks_for_another(
    told_console: ConsoleVisitor, services: ToldServices, all_routes: Litestar, role: str
) -> None:
    routes = _routes(all_routes)
    assert len(routes) > 40
    await told_console.become(role, "south")
    token = await told_console.csrf()
    services.asked.clear()
    for method, path in routes:
        if method in SAFE_METHODS:
            status, page, _ = await told_console.get(f"{_example(path)}?tenant=north&{QUERY}")
        else:
            status, page, _ = await told_console.post(f"{_example(path)}?tenant=north", FORM | {"csrf": token})
        assert status == 403, f"{method} {path} gave {status}: {page[:300]}"
    assert [one for one in services.asked if one.path not in OF_EVERYBODY] == []


@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
async def test_whatever_somebody_of_a_tenant_opens_is_asked_for_that_tenant(
    told_console: ConsoleVisitor, services: ToldServices, all_routes: Litestar, role: str
) -> None:
    await told_console.become(role, "south")
    token = await told_console.csrf()
    services.asked.clear()
    for method, path in _routes(all_routes):
        if method in SAFE_METHODS:
            await told_console.get(f"{_example(path)}?{QUERY}")
        elif path != "/people/remove":
            await told_console.post(_example(path), FORM | {"csrf": token})
    asked = [one for one in services.asked if one.path not in OF_EVERYBODY]
    assert len({one.path for one in asked}) > 20
    strangers = [
        one
        for one in asked
        if one.tenant != "south" and (one.path, one.query.get("status", "")) not in OF_EVERYBODY_ON_THE_FIRST_PAGE
    ]
    assert strangers == []


async def test_what_touches_every_tenant_needs_somebody_who_sees_all_of_them(
    told_console: ConsoleVisitor, services: ToldServices, tmp_path: Path
) -> None:
    await told_console.become("admin", "south")
    services.asked.clear()
    status, page, _ = await told_console.act("/sync/unclaim", minutes="5")
    assert (status, "every tenant" in page) == (403, True)
    form = {"source": "rule", "id": "00000000-0000-7000-8000-000000000000"}
    status, page, _ = await told_console.act("/alerts/acknowledge", **form)
    assert (status, "every tenant" in page) == (403, True)
    assert not any(one.method == "POST" for one in services.asked)

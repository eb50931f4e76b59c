"""A CSV is all that there is, or says that it is not: it never looks whole while it is not."""

import csv
import io
from typing import Any

from aiohttp import web
from litestar import Litestar

from support.console_visitor import ConsoleVisitor
from support.told_services import ToldServices

QUERY = "device_id=node-1&at=2026-01-01T00:00:00Z&device=node-1&metric=temperature"
OF_OUR_OWN = {"/people.csv", "/people/audit.csv", "/health/services.csv", "/health/links.csv"}
"""From files of the console's own, or about who answers at all."""
AT = "2026-01-01T00:00:00Z"
OUTBOX_ROW: dict[str, Any] = {
    "id": "00000000-0000-7000-8000-000000000000", "tenant_id": "north", "event_type": "a.b", "status": "pending", "priority": 0,
    "attempt_count": 0, "created_at": AT, "next_attempt_at": AT,
}  # fmt: skip


def _csv_routes(app: Litestar) -> list[str]:
    paths = {route.path_format for route in app.routes if ".csv" in route.path_format or "/csv/" in route.path_format}
    return sorted(paths)


async def test_no_file_looks_whole_while_a_tier_is_away(told_console: ConsoleVisitor, all_routes: Litestar) -> None:
    await told_console.log_in()
    routes = _csv_routes(all_routes)
    assert len(routes) >= 16
    for route in routes:
        path = route.replace("{device_id}", "node-1").replace("{table}", "streams")
        status, said, _ = await told_console.get(f"{path}?{QUERY}")
        assert status == (200 if route in OF_OUR_OWN else 503), f"{route} gave {status}: {said[:200]}"


async def test_a_file_that_is_cut_says_so_in_its_name_and_in_its_last_line(
    told_console: ConsoleVisitor, services: ToldServices
) -> None:
    services.answers["/api/v1/sync/outbox"] = lambda request: {"entries": [OUTBOX_ROW] * _limit(request)}
    await told_console.log_in()
    status, text, headers = await told_console.get("/sync/outbox.csv")
    lines = list(csv.reader(io.StringIO(text)))
    assert (status, len(lines)) == (200, 1 + 999 + 1)
    assert lines[-1] == ["(only 999 are in this file: there are more)"]
    assert "outbox-first-999.csv" in headers["content-disposition"]


async def test_every_session_is_in_the_file_and_a_page_that_fails_is_no_end(
    told_console: ConsoleVisitor, services: ToldServices
) -> None:
    session = {
        "id": "00000000-0000-7000-8000-000000000000", "tenant_id": "north", "farm_id": "f", "barn_id": "b", "device_id": "s-1",
        "batch_id": None, "status": "created", "is_complete": False, "is_finalized_by_hand": False, "incomplete_since": None,
        "missing": {}, "pictures": {"expected": None, "stored": 0}, "start_at": AT, "end_at": None, "final_weight_kg": None,
        "inference_result_id": None,
        "first_heard_at": AT, "last_heard_at": AT,
    }  # fmt: skip
    pages = 30

    def answer(request: web.Request) -> dict[str, Any]:
        number = int(request.query.get("after", "0"))
        return {"sessions": [session] * _limit(request), "next": str(number + 1) if number + 1 < pages else None}

    services.answers["/api/v1/weighvision/sessions"] = answer
    await told_console.log_in()
    status, text, _ = await told_console.get("/sessions/list.csv?tier=edge")
    assert (status, len(text.splitlines())) == (200, 1 + 500 * pages), text[:500]


def _limit(request: web.Request) -> int:
    return int(request.query["limit"])

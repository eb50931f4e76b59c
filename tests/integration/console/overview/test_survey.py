"""What the first page asks of the services: in pages, once for everybody, and never for longer than anybody waits."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from aiohttp import web

from farmiq.console.neighbours import Neighbours
from farmiq.console.overview.figures import Day, Fleet, Link, Lost, Room, Summary
from farmiq.console.overview.survey import FIRST_PATIENCE_SECONDS, Survey
from farmiq.console.settings import ConsoleSettings
from farmiq.kit.clock import Clock
from farmiq.kit.http_client import open_session
from support.waiting import eventually

METRICS = """
# TYPE farmiq_end_to_end_delay_seconds histogram
farmiq_end_to_end_delay_seconds_bucket{lane="live",le="0.5"} 50.0
farmiq_end_to_end_delay_seconds_bucket{lane="live",le="1.0"} 100.0
farmiq_end_to_end_delay_seconds_bucket{lane="live",le="+Inf"} 100.0
farmiq_end_to_end_delay_seconds_bucket{lane="replay",le="0.5"} 0.0
farmiq_end_to_end_delay_seconds_bucket{lane="replay",le="1.0"} 0.0
farmiq_end_to_end_delay_seconds_bucket{lane="replay",le="+Inf"} 9000.0
# TYPE farmiq_bus_queue_messages gauge
farmiq_bus_queue_messages{queue="farmiq.cloud-telemetry-service.ingest.queue"} 7.0
farmiq_bus_queue_messages{queue="farmiq.cloud-telemetry-service.ingest-retry-5s.queue"} 2.0
farmiq_bus_queue_messages{queue="farmiq.cloud-telemetry-service.dlq.queue"} 3.0
"""


class Services:
    """All of them behind one port, with answers as the real ones give them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers: dict[str, Any] = {
            "/api/v1/fleet": {"online": 4, "quiet": 1, "never_heard": 2, "runway_seconds": None, "room_seconds": None},
            "/api/v1/sync/detail": {"holders": [], "links": [{"tenant_id": "demo", "consecutive_failures": 3}]},
            "/api/v1/sync/media": {"pending_count": 1, "sending_count": 1, "failed_count": 0, "entries": []},
            "/api/v1/sync/room": {"disk_free_bytes": 5, "disk_bytes": 10},
        }
        self.hanging: set[str] = set()
        self.may_answer = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked[request.path] += 1
        if request.path in self.hanging:
            await self.may_answer.wait()
        if request.path == "/metrics":
            return web.Response(text=METRICS)
        if request.path == "/api/v1/telemetry/summary":
            return web.json_response(self._summary(request.query.get("after", "")))
        if request.path not in self.answers:
            return web.json_response({"error": {"code": "away", "message": "not now"}}, status=503)
        return web.json_response(self.answers[request.path])

    @staticmethod
    def _summary(after: str) -> dict[str, Any]:
        """Three pages, and only the first tells of the tenant."""
        if not after:
            lost = {"samples": 9, "losses": 1, "devices": 1, "latest": None}
            return {"stored": 100, "missing": 7, "lost": lost, "next": "node-1"}
        return {"stored": 20, "next": "node-2"} if after == "node-1" else {"stored": 3, "next": None}


class Desk:
    def __init__(self, services: Services, survey: Survey) -> None:
        self.services = services
        self.survey = survey


@pytest_asyncio.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    services = Services()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", services.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = ConsoleSettings(
        console_state_dir=str(tmp_path),
        console_tenants=("demo",),
        edge_telemetry_timeseries_url=url,
        edge_sync_forwarder_url=url,
        edge_media_store_url=url,
        cloud_telemetry_service_url=url,
    )
    async with open_session("console", total_seconds=30, connections_max=50) as session:
        yield Desk(services, Survey(Neighbours(session, settings.addresses(), settings.tokens()), Clock()))
    await runner.cleanup()


async def test_figures_are_what_the_services_tell(desk: Desk) -> None:
    found = await desk.survey.figures("demo")
    tier = Summary(123, 7, Lost(9, 1, 1))
    assert found.day == Day(tier, tier), "three pages, added up"
    assert found.fleet == Fleet(online=4, quiet=1, never_heard=2)
    assert found.link == Link("demo", 3)
    assert found.room == Room(5, 10)
    assert found.pictures is not None
    assert found.pictures.waiting == 2
    assert (found.bus.waiting, found.bus.dead) == (9, 3)
    assert found.delay is not None
    assert (found.delay.batches, found.delay.p50, found.delay.is_beyond) == (100, 0.5, False), "live, and no replay"


async def test_a_tenant_that_never_sent_anything_has_nothing_wrong_with_its_way(desk: Desk) -> None:
    assert (await desk.survey.figures("other")).link == Link("other")


async def test_a_hundred_viewers_cost_as_much_as_one(desk: Desk) -> None:
    await asyncio.gather(*(desk.survey.figures("demo") for _ in range(100)))
    assert desk.services.asked["/api/v1/fleet"] == 1
    assert desk.services.asked["/api/v1/telemetry/summary"] == 6, "three pages of each tier"
    await desk.survey.figures("other")
    assert (desk.services.asked["/api/v1/fleet"], desk.services.asked["/api/v1/sync/room"]) == (2, 1)


async def test_a_service_that_hangs_leaves_a_dash_and_the_rest_of_the_figures(desk: Desk) -> None:
    desk.services.hanging = {"/api/v1/fleet", "/api/v1/telemetry/summary"}
    began = time.monotonic()
    async with asyncio.timeout(FIRST_PATIENCE_SECONDS * 10):
        found = await desk.survey.figures("demo")
    assert time.monotonic() - began >= FIRST_PATIENCE_SECONDS
    assert (found.fleet, found.day) == (None, Day())
    assert found.room == Room(5, 10)
    desk.services.may_answer.set()

    async def is_known() -> bool:
        now = await desk.survey.figures("demo")
        return now.fleet is not None and now.day.cloud is not None

    await eventually(is_known, what="what was asked for before is known once it is answered")


async def test_what_is_refused_or_is_no_answer_at_all_is_not_known(desk: Desk) -> None:
    del desk.services.answers["/api/v1/fleet"]
    desk.services.answers["/api/v1/sync/detail"] = {"links": "many"}
    found = await desk.survey.figures("demo")
    assert (found.fleet, found.link) == (None, None)

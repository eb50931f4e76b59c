import asyncio
from collections.abc import Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

from litestar import Router
from litestar.static_files import create_static_files_router

from farmiq.alerting import AlertSettings, AlertStore, keep_alerts, webhook_of
from farmiq.console.desk import Desk
from farmiq.console.errors_shown import error_page, page_not_there
from farmiq.console.first_person import let_first_person_in
from farmiq.console.guarding import guard_with, with_headers
from farmiq.console.live import live_routes
from farmiq.console.login_routes import login_routes
from farmiq.console.neighbours import Neighbours
from farmiq.console.pages import PLACES, other_routes
from farmiq.console.pulse import Pulse
from farmiq.console.settings import ConsoleSettings
from farmiq.console.store import Store
from farmiq.kit.http_client import open_session
from farmiq.kit.http_server import serve_http
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.settings import load

ANSWER_SECONDS = 5.0


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings, alert_settings = load(ConsoleSettings, environ), load(AlertSettings, environ)
    folder = Path(settings.console_state_dir)
    with closing(AlertStore(folder, life.clock.now(), alert_settings.alert_runbook_url)) as alerts:
        watching = keep_alerts(
            life,
            settings.addresses(),
            alerts,
            webhook_of(alert_settings),
            disks=[folder, *map(Path, alert_settings.alert_disks)],
            interval_seconds=alert_settings.alert_interval_seconds,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(life.until_stopped(watching))
            serving = _serve_pages(life, settings, alerts) if settings.console_pages else serve_http(life, settings, [])
            group.create_task(serving)


async def _serve_pages(life: Lifetime, settings: ConsoleSettings, alerts: AlertStore) -> None:
    with closing(Store(Path(settings.console_state_dir))) as store:
        let_first_person_in(store, settings, life.clock)
        async with open_session(life.service, total_seconds=ANSWER_SECONDS, connections_max=50) as session:
            neighbours = Neighbours(session, settings.addresses(), settings.tokens())
            pulse = Pulse(neighbours, life.clock)
            desk = Desk(settings, neighbours, pulse, store, alerts, life.clock, PLACES)
            async with asyncio.TaskGroup() as group:
                group.create_task(life.until_stopped(pulse.keep(life, settings.console_pulse_seconds)))
                group.create_task(serve_http(life, settings, console_routes(desk, life)))


def console_routes(desk: Desk, life: Lifetime) -> list[Any]:
    pages = [route for place in desk.places for route in place.routes(desk)]
    behind_login = Router(
        "/",
        route_handlers=[*login_routes(desk), *live_routes(desk, life), *other_routes(desk), *pages, page_not_there],
        guards=[guard_with(desk.store, life.clock)],
        after_request=with_headers,
        exception_handlers={Exception: error_page(desk)},
        include_in_schema=False,
    )
    static = create_static_files_router(
        path="/static",
        directories=[str(files("farmiq.console") / "static")],
        include_in_schema=False,
        after_request=with_headers,
    )
    return [behind_login, static]

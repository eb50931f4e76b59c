"""Every service: is it ready, what is wrong with it, since when, what that means, and the command that helps."""

import asyncio
import platform
from pathlib import Path
from typing import Any, Final

import msgspec
from litestar import Response, get

from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.console.service_health import Heard, Ready, ServiceHealth, Since, judge, summary, versions
from farmiq.kit.http_server import ApiError, Health
from farmiq.kit.rested import Rested
from farmiq.stack.relay.client import OrderRefused, RelayAway, RelayClient
from farmiq.stack.relay.protocol import RouteState

REST_SECONDS: Final = 0.5
RELAY_SECONDS: Final = 1.0


def routes(desk: Desk) -> list[Any]:
    # One that hangs only makes us wait. Resting for long after it, we would call it away when it is back.
    heard = Rested(lambda: _hear_all(desk.neighbours), desk.clock, rest_seconds=REST_SECONDS, rest_factor=0)
    known_since = Since()

    async def look() -> dict[str, Any]:
        found = await heard.get()
        since = known_since.look(found, desk.clock.now())
        services = [judge(name, desk.neighbours.url_of(name), one, since.get(name)) for name, one in found.items()]
        return _shown(services) | await _cuts(desk.settings.console_relay_socket)

    @get("/health")
    async def health(request: AnyRequest) -> Page:
        return desk.show(request, "health.html", python=platform.python_version(), **await look())

    @get("/health/now")
    async def now(request: AnyRequest) -> Page:
        return desk.show(request, "health_now.html", **await look())

    @get("/health/services.csv")
    async def services_csv() -> Response[bytes]:
        columns = ("service", "tier", "word", "since", "version", "failing", "meaning", "command")
        rows = (
            (
                one.service, one.tier, one.word, one.since, one.version,
                "; ".join(f"{check.name}: {check.said}" for check in one.checks if not check.is_ok), one.meaning, one.command,
            )
            for one in (await look())["services"]
        )  # fmt: skip
        return csv_response("services", columns, rows)

    @get("/health/links.csv")
    async def links_csv() -> Response[bytes]:
        found = await _cuts(desk.settings.console_relay_socket)
        if found["relay_problem"]:
            raise ApiError(503, "relay_away", found["relay_problem"])
        rows = (
            (
                one.name,
                one.is_healthy,
                " ".join(one.faults.names),
                None if one.is_healthy else one.faults.since,
                one.connections,
            )
            for one in found["links"] or []
        )
        return csv_response("links", ("link", "is_whole", "faults", "since", "connections"), rows)

    return [health, now, services_csv, links_csv]


async def _hear_all(neighbours: Neighbours) -> dict[str, Heard]:
    names = neighbours.names
    return dict(zip(names, await asyncio.gather(*(_hear(neighbours, name) for name in names)), strict=True))


async def _hear(neighbours: Neighbours, service: str) -> Heard:
    try:
        answer = await neighbours.readiness(service)
        ready = msgspec.json.decode(answer.body, type=Ready)
        told = await neighbours.get(service, "/api/health", Health)
    except (Away, Refused) as error:
        return Heard(problem=str(error))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Heard(problem="something else answers at its address")
    return Heard(ready, told.version)


def _shown(services: list[ServiceHealth]) -> dict[str, Any]:
    kind, text = summary(services)
    return {"services": services, "kind": kind, "text": text, "versions": sorted(versions(services))}


async def _cuts(socket: str | None) -> dict[str, Any]:
    """The relay of a local farm. A console elsewhere has none."""
    try:
        links = await asyncio.to_thread(_links, Path(socket)) if socket else None
    except (RelayAway, OrderRefused) as error:
        return {"links": [], "relay_problem": str(error)}
    return {"links": links, "relay_problem": ""}


def _links(socket: Path) -> list[RouteState] | None:
    return RelayClient(socket, RELAY_SECONDS).look() if socket.exists() else None


PLACE = Place("health", "Health", "/health", routes)

"""The search box on each page: pages, devices by a part of their name, weigh sessions by their id."""

from typing import Annotated, Any, Final
from uuid import UUID

from litestar import get
from litestar.params import QueryParameter
from msgspec import Struct

from farmiq.console.desk import AnyRequest, Desk, Page
from farmiq.console.neighbours import Away, Refused

DEVICES: Final = "edge-telemetry-timeseries"
FOUND_MAX: Final = 8


class Device(Struct, frozen=True):
    device_id: str


class Devices(Struct, frozen=True):
    devices: list[Device] = []


class Hit(Struct, frozen=True):
    kind: str
    title: str
    path: str


def search_routes(desk: Desk) -> list[Any]:
    @get("/search")
    async def search(request: AnyRequest, q: Annotated[str, QueryParameter(max_length=64)] = "") -> Page:
        words = q.strip()
        hits = await _hits(desk, request, words) if words else []
        is_part = "hx-request" in request.headers
        return desk.show(request, "search_hits.html" if is_part else "search.html", hits=hits, words=words)

    return [search]


async def _hits(desk: Desk, request: AnyRequest, words: str) -> list[Hit]:
    hits = [
        Hit("page", place.title, place.path)
        for place in desk.places_for(request)
        if words.casefold() in place.title.casefold()
    ]
    if (session_id := _uuid(words)) is not None:
        hits.append(Hit("weigh session", str(session_id), f"/sessions/{session_id}"))
    return hits + await _devices(desk, request, words)


async def _devices(desk: Desk, request: AnyRequest, words: str) -> list[Hit]:
    """None while the edge is away: the rest is found nevertheless."""
    try:
        found = await desk.neighbours.get(
            DEVICES, "/api/v1/devices", Devices, tenant_id=desk.tenant(request), q=words, limit=FOUND_MAX
        )
    except (Away, Refused):
        return []
    return [Hit("device", one.device_id, f"/devices/{one.device_id}") for one in found.devices]


def _uuid(words: str) -> UUID | None:
    try:
        return UUID(words)
    except ValueError:
        return None

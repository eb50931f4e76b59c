"""The page that is looked at first: is anything missing, since when, where is it now, and what do I do."""

import hashlib
from typing import Any

from litestar import Response, get
from litestar.params import FromQuery

from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.forms import Line
from farmiq.console.overview import picture
from farmiq.console.overview.flow import hops, stations
from farmiq.console.overview.sentence import Sentence, sentence
from farmiq.console.overview.situation import CLOUD_STORE, EDGE_STORE, Situation, situation
from farmiq.console.overview.survey import Survey
from farmiq.console.overview.throughput import Plot, plot


def routes(desk: Desk) -> list[Any]:
    survey = Survey(desk.neighbours, desk.clock)

    async def look(request: AnyRequest) -> dict[str, Any]:
        now = situation(desk.pulse, await survey.figures(desk.tenant(request)), desk.clock.now())
        return _shown(desk, now)

    @get("/")
    async def overview(request: AnyRequest) -> Page:
        return desk.show(request, "overview.html", **await look(request))

    @get("/overview/headline")
    async def headline(request: AnyRequest, seen: FromQuery[Line] = "") -> Page | Response[None]:
        """Nothing while it is the same: a screen reader says it when it changes, and only then."""
        shown = await look(request)
        if shown["seen"] == seen:
            return Response(None, status_code=204)
        return desk.show(request, "overview_headline.html", **shown)

    @get("/overview/now")
    async def now(request: AnyRequest) -> Page:
        return desk.show(request, "overview_now.html", **await look(request))

    return [overview, headline, now]


def _shown(desk: Desk, now: Situation) -> dict[str, Any]:
    found, said = hops(now), sentence(now)
    boxes = stations(now)
    return {
        "situation": now,
        "said": said,
        "seen": _digest(said),
        "hops": found,
        "wide": picture.wide(boxes, found),
        "tall": picture.tall(boxes, found),
        "plot": _plot(desk),
        "is_shared": len(desk.settings.console_tenants) > 1,
    }


def _plot(desk: Desk) -> Plot:
    edge, cloud = (desk.pulse.history(service, "samples_stored") for service in (EDGE_STORE, CLOUD_STORE))
    return plot(edge, cloud, desk.clock.monotonic())


def _digest(said: Sentence) -> str:
    return hashlib.sha256(f"{said.kind} {said.headline}".encode()).hexdigest()[:16]


PLACE = Place("overview", "Overview", "/", routes)

"""The ledger: everything that was given up, by whom, how much, why, and since when nothing was."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Final

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from farmiq.console.addresses import linker
from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.fleet import asking
from farmiq.console.fleet.answers import Losses, LossSummary, StationLosses
from farmiq.console.fleet.asking import CLOUD, EDGE, Told, stamp, troubles
from farmiq.console.fleet.causes import NODE_CAUSES
from farmiq.console.fleet.ledger import (
    Entry,
    LedgerQuestion,
    entries_of,
    ledger_sentence,
    months_of,
    next_page,
    of_stations,
)
from farmiq.contracts.station import STATION_LOSS
from farmiq.timeseries.paging import CURSOR_LENGTH_MAX

ROWS: Final = 100
CSV_ROWS_MAX: Final = 50_000
CSV_PAGE: Final = 2000

AnyName = Annotated[str | None, QueryParameter(max_length=64)]
After = Annotated[str | None, QueryParameter(max_length=CURSOR_LENGTH_MAX)]
COLUMNS: Final = (
    "declared_at", "device_id", "kind", "stream_id", "first_seq", "last_seq", "count", "first_measured_at",
    "last_measured_at", "reason", "cause", "recorded_at_edge", "recorded_in_cloud_at", "event_id",
)  # fmt: skip


def routes(desk: Desk) -> list[Any]:
    @get("/losses")
    async def losses(
        request: AnyRequest,
        device: AnyName = None,
        reason: AnyName = None,
        since: FromQuery[datetime | None] = None,
        until: FromQuery[datetime | None] = None,
        after: After = None,
    ) -> Page:
        asked = LedgerQuestion.of(device, reason, since, until, after)
        shown = await _shown(desk, desk.tenant(request), asked)
        return desk.show(request, "losses.html", **shown)

    @get("/losses.csv")
    async def losses_csv(
        request: AnyRequest,
        device: AnyName = None,
        reason: AnyName = None,
        since: FromQuery[datetime | None] = None,
        until: FromQuery[datetime | None] = None,
    ) -> Response[bytes]:
        asked = LedgerQuestion.of(device, reason, since, until)
        found = await _all_entries(desk, desk.tenant(request), asked)
        return csv_response("losses", COLUMNS, map(_line, found))

    return [losses, losses_csv]


async def _shown(desk: Desk, tenant: str, asked: LedgerQuestion) -> dict[str, Any]:
    (edge, cloud, stations), here, there = await asyncio.gather(
        _page(desk, tenant, asked, ROWS),
        asking.ask(desk, EDGE, "/api/v1/losses/summary", LossSummary, tenant_id=tenant),
        asking.ask(desk, CLOUD, "/api/v1/losses/summary", LossSummary, tenant_id=tenant),
    )
    entries = entries_of(edge.value, cloud.value, stations.value)
    given = asked.parameters()
    return {
        "entries": [entry for entry in entries[:ROWS] if asked.fits(entry)],
        "asked": asked,
        "older": next_page(entries, ROWS),
        "causes": NODE_CAUSES,
        "summary": here.value or there.value,
        "months": months_of(here.value or there.value),
        "sentence": ledger_sentence(here.value, there.value, of_stations(entries), desk.clock.now()),
        "troubles": troubles(edge, cloud, stations, here, there),
        "link": linker("/losses", given),
        "edge_known": edge.value is not None,
        "cloud_known": cloud.value is not None,
    }


async def _page(
    desk: Desk, tenant: str, asked: LedgerQuestion, limit: int
) -> tuple[Told[Losses], Told[Losses], Told[StationLosses]]:
    """Both tiers and the stations; a question about a name that nothing can have is answered with nothing."""
    if not asked.is_possible:
        return Told(EDGE, Losses()), Told(CLOUD, Losses()), Told(CLOUD, StationLosses())
    question: dict[str, Any] = {
        "tenant_id": tenant,
        "device_id": asked.device,
        "after": asked.after,
        "limit": limit + 1,
        "from": stamp(asked.since),
        "to": None if asked.until is None else stamp(asked.until),
    }
    edge, cloud, stations = await asyncio.gather(
        asking.ask(desk, EDGE, "/api/v1/losses", Losses, **question, reason=asked.reason),
        asking.ask(desk, CLOUD, "/api/v1/losses", Losses, **question, reason=asked.reason),
        asking.ask(desk, CLOUD, "/api/v1/events", StationLosses, **question, event_type=STATION_LOSS),
    )
    return edge, cloud, stations


async def _all_entries(desk: Desk, tenant: str, asked: LedgerQuestion) -> list[Entry]:
    found: list[Entry] = []
    while len(found) < CSV_ROWS_MAX:
        edge, cloud, stations = await _page(desk, tenant, asked, CSV_PAGE)
        entries = entries_of(edge.value, cloud.value, stations.value)
        older = next_page(entries, CSV_PAGE)
        found += [entry for entry in entries[:CSV_PAGE] if asked.fits(entry)]
        if older is None:
            break
        asked = asked.from_there(older)
    return found


def _line(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.declared_at, entry.device_id, entry.kind, entry.stream_id, entry.first_seq, entry.last_seq, entry.count,
        entry.first_at, entry.last_at, entry.reason, entry.cause, entry.at_edge, entry.in_cloud, entry.event_id,
    )  # fmt: skip


PLACE = Place("losses", "Losses", "/losses", routes)

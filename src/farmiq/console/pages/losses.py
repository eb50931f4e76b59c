"""The ledger: everything that was given up, by whom, how much, why, and since when nothing was."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Final

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter

from farmiq.console.addresses import linker
from farmiq.console.csv_export import csv_of_structs, csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.fleet import asking
from farmiq.console.fleet.answers import Losses, LossSummary, StationLosses
from farmiq.console.fleet.asking import CLOUD, EDGE, Told, stamp, troubles
from farmiq.console.fleet.causes import NODE_CAUSES, STATION_CAUSES
from farmiq.console.fleet.ledger import (
    Entry,
    LedgerQuestion,
    Ledgers,
    Month,
    entries_of,
    ledger_sentence,
    months_of,
    next_page,
)
from farmiq.console.neighbours import Away
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
        return csv_response("losses", COLUMNS, map(_line, found), rows_max=CSV_ROWS_MAX)

    @get("/losses/months.csv")
    async def months_csv(request: AnyRequest) -> Response[bytes]:
        told = [
            await asking.ask(desk, tier, "/api/v1/losses/summary", LossSummary, tenant_id=desk.tenant(request))
            for tier in (EDGE, CLOUD)
        ]
        for one in troubles(*told):
            raise Away(one.service, one.trouble)
        return csv_of_structs("losses-by-month", Month, months_of(*(one.value for one in told)))

    return [losses, losses_csv, months_csv]


async def _shown(desk: Desk, tenant: str, asked: LedgerQuestion) -> dict[str, Any]:
    told, here, there = await asyncio.gather(
        _page(desk, tenant, asked, ROWS),
        asking.ask(desk, EDGE, "/api/v1/losses/summary", LossSummary, tenant_id=tenant),
        asking.ask(desk, CLOUD, "/api/v1/losses/summary", LossSummary, tenant_id=tenant),
    )
    entries = entries_of(_ledgers(told))
    return {
        "entries": entries[:ROWS],
        "asked": asked,
        "older": next_page(entries, ROWS),
        "causes": STATION_CAUSES | NODE_CAUSES,
        "months": months_of(here.value, there.value),
        "sentence": ledger_sentence(here.value, there.value, desk.clock.now()),
        "troubles": troubles(*told, here, there),
        "link": linker("/losses", asked.parameters()),
        "edge_known": told[0].value is not None,
        "cloud_known": told[1].value is not None,
        "csv_rows_max": CSV_ROWS_MAX,
    }


Told4 = tuple[Told[Losses], Told[Losses], Told[StationLosses], Told[StationLosses]]
"""Of streams at the edge and in the cloud, of stations at the edge and in the cloud."""


async def _page(desk: Desk, tenant: str, asked: LedgerQuestion, limit: int) -> Told4:
    """A question about a name that nothing can have is answered with nothing."""
    if not asked.is_possible:
        return (
            Told(EDGE, Losses()), Told(CLOUD, Losses()), Told(EDGE, StationLosses()), Told(CLOUD, StationLosses()),
        )  # fmt: skip
    question: dict[str, Any] = {
        "tenant_id": tenant,
        "device_id": asked.device,
        "reason": asked.reason,
        "after": asked.after,
        "limit": limit + 1,
        "from": stamp(asked.since),
        "to": None if asked.until is None else stamp(asked.until),
    }
    return await asyncio.gather(
        asking.ask(desk, EDGE, "/api/v1/losses", Losses, **question),
        asking.ask(desk, CLOUD, "/api/v1/losses", Losses, **question),
        asking.ask(desk, EDGE, "/api/v1/losses/stations", StationLosses, **question),
        asking.ask(desk, CLOUD, "/api/v1/losses/stations", StationLosses, **question),
    )


def _ledgers(told: Told4) -> Ledgers:
    edge, cloud, edge_stations, cloud_stations = told
    return Ledgers(edge.value, cloud.value, edge_stations.value, cloud_stations.value)


async def _all_entries(desk: Desk, tenant: str, asked: LedgerQuestion) -> list[Entry]:
    """One more than there is room for, if there are more."""
    found: list[Entry] = []
    while len(found) <= CSV_ROWS_MAX:
        told = await _page(desk, tenant, asked, CSV_PAGE)
        for one in troubles(*told):
            # A file that says less than there is would be taken for the truth.
            raise Away(one.service, one.trouble)
        entries = entries_of(_ledgers(told))
        older = next_page(entries, CSV_PAGE)
        found += entries[:CSV_PAGE]
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

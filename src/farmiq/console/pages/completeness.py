"""Is anything missing, when, and where is it now: device by hour."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct
from msgspec.structs import replace

from farmiq.console.addresses import linker
from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.fleet import asking
from farmiq.console.fleet.answers import Device, Devices, Losses
from farmiq.console.fleet.asking import CLOUD, EDGE, Told, stamp, troubles
from farmiq.console.fleet.cells import (
    SIGNS,
    WORDS,
    Outbox,
    Row,
    dead_times,
    hours_between,
    row_of,
    sentence_of,
    sums_of,
    tiers_of,
)
from farmiq.console.fleet.incomplete import incomplete
from farmiq.console.neighbours import Away
from farmiq.console.pages.completeness_cell import cell_routes
from farmiq.console.ranges import LENGTHS, TimeRange, time_range
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.aggregates import start_of_bucket
from farmiq.timeseries.hours import STEPS, Step

RANGES: Final = ("24h", "7d", "31d", "1y")
HOURS_LENGTH_MAX: Final = timedelta(days=8)
RANGE_MAX: Final = LENGTHS["1y"]
DEVICES_OF_A_WEEK: Final = 20
DEVICES: Final = 50
CSV_DEVICES_MAX: Final = 1000
LOSSES_MAX: Final = 5000

PartOfName = Annotated[str | None, QueryParameter(max_length=64)]
Only = Literal["missing"]
AnyOnly = Literal["", "missing"]
"""A form sends a choice that was not made as empty."""


class Question(Struct, frozen=True):
    """What of the grid was asked for."""

    tenant: str
    hours: list[datetime]
    until: datetime
    step: Step
    part_of_name: str | None
    only: Only | None
    after: str | None
    limit: int


class Grid(Struct, frozen=True):
    rows: list[Row]
    next: str | None
    troubles: list[Told[Any]]


def routes(desk: Desk) -> list[Any]:
    @get("/completeness")
    async def completeness(
        request: AnyRequest,
        range_: Annotated[str | None, QueryParameter(name="range", max_length=8)] = None,
        since: FromQuery[datetime | None] = None,
        until: FromQuery[datetime | None] = None,
        q: PartOfName = None,
        only: FromQuery[AnyOnly] = "",
        after: PartOfName = None,
    ) -> Page:
        times = time_range(range_, since, until, desk.clock.now())
        question = question_of(desk.tenant(request), times, q or None, only or None, after)
        grid = await _grid(desk, question)
        template = "completeness_grid.html" if "hx-request" in request.headers else "completeness.html"
        return desk.show(request, template, **_shown(question, grid, times))

    @get("/completeness.csv")
    async def completeness_csv(
        request: AnyRequest,
        range_: Annotated[str | None, QueryParameter(name="range", max_length=8)] = None,
        since: FromQuery[datetime | None] = None,
        until: FromQuery[datetime | None] = None,
        q: PartOfName = None,
        only: FromQuery[AnyOnly] = "",
    ) -> Response[bytes]:
        times = time_range(range_, since, until, desk.clock.now())
        columns = (
            "device_id",
            "at",
            "state",
            "in_cloud",
            "in_edge",
            "on_node",
            "declared_lost",
            "unexplained",
            "where",
        )
        question = question_of(desk.tenant(request), times, q or None, only or None, None)
        lines = (line for row in await _all_rows(desk, question) for line in _lines(row))
        return csv_response("completeness", columns, lines, rows_max=CSV_DEVICES_MAX * len(question.hours))

    return [completeness, completeness_csv, *cell_routes(desk)]


def question_of(tenant: str, times: TimeRange, q: str | None, only: Only | None, after: str | None) -> Question:
    if times.length > RANGE_MAX:
        raise ApiError(400, "bad_range", "At most a year at once")
    step: Step = "1h" if times.length <= HOURS_LENGTH_MAX else "1d"
    first = start_of_bucket(times.since, step)
    if first < times.since and times.name is not None:
        # A length counts back from now: the hour that has begun is its last one.
        first += STEPS[step]
    hours = hours_between(first, times.until, STEPS[step])
    limit = DEVICES if len(hours) <= DEVICES else DEVICES_OF_A_WEEK
    return Question(tenant, hours, times.until, step, q, only, after, limit)


async def _grid(desk: Desk, question: Question) -> Grid:
    listed, following = await _devices(desk, question)
    devices = listed.value.devices if listed.value else []
    names = [device.device_id for device in devices]
    window = (question.hours[0], question.until, question.step)
    (edge, cloud), dead = await asyncio.gather(
        asking.coverage(desk, question.tenant, names, *window), asking.dead_letters(desk, question.tenant)
    )
    here, there = tiers_of(edge.value), tiers_of(cloud.value)
    undated = {one.device_id: one.missing for one in (edge.value.undated if edge.value else [])}
    dead_at, waiting = dead_times(dead.value), _waiting(desk)
    rows = [
        row_of(
            device,
            question.hours,
            question.step,
            None if here is None else here.get(device.device_id, {}),
            None if there is None else there.get(device.device_id, {}),
            Outbox(waiting, dead_at.get(device.device_id, ())),
            undated.get(device.device_id, 0),
        )
        for device in devices
    ]
    return Grid(rows, following, troubles(listed, edge, cloud, dead))


async def _devices(desk: Desk, question: Question) -> tuple[Told[Devices], str | None]:
    """Of one page, and what the next one begins after. With the edge away the cloud names those that it knows."""
    if question.only == "missing":
        return await _incomplete_devices(desk, question)
    listed = await asking.devices_like(
        desk, question.tenant, question.part_of_name, after=question.after, limit=question.limit
    )
    if listed.value is not None:
        return listed, listed.value.next
    names, following = _page_of(await _names_in_cloud(desk, question.tenant), question)
    return Told(EDGE, Devices([_unheard(question.tenant, name) for name in names]), listed.trouble), following


async def _incomplete_devices(desk: Desk, question: Question) -> tuple[Told[Devices], str | None]:
    edge, cloud, losses = await asyncio.gather(
        asking.all_totals(desk, EDGE, question.tenant),
        asking.all_totals(desk, CLOUD, question.tenant),
        asking.ask(
            desk, EDGE, "/api/v1/losses", Losses,
            tenant_id=question.tenant, limit=LOSSES_MAX, **{"from": stamp(question.hours[0])},
        ),
    )  # fmt: skip
    lost = {loss.device_id for loss in losses.value.losses} if losses.value else set()
    names, following = _page_of(incomplete(edge.value, cloud.value, lost), question)
    listed = await asking.devices_named(desk, question.tenant, names)
    return listed, following


def _page_of(names: Sequence[str], question: Question) -> tuple[list[str], str | None]:
    wanted = (question.part_of_name or "").lower()
    found = [name for name in names if wanted in name.lower() and (question.after is None or name > question.after)]
    page = found[: question.limit]
    return page, page[-1] if len(found) > question.limit else None


async def _names_in_cloud(desk: Desk, tenant: str) -> list[str]:
    return sorted((await asking.all_totals(desk, CLOUD, tenant)).value or {})


def _unheard(tenant: str, name: str) -> Device:
    """Nobody can say anything of it but that it was once there."""
    return Device(name, tenant, "", "", "never_heard", fresh=False)


def _waiting(desk: Desk) -> int | None:
    beat = desk.pulse.of(asking.SYNC)
    if beat is None or beat.away_since is not None:
        return None
    return int(beat.told.get("pending_count", 0)) + int(beat.told.get("claimed_count", 0))


async def _all_rows(desk: Desk, question: Question) -> list[Row]:
    rows: list[Row] = []
    after: str | None = None
    while len(rows) <= CSV_DEVICES_MAX:
        page = await _grid(desk, replace(question, after=after))
        if page.troubles:
            # A file that says less than there is would be taken for the truth.
            raise Away(page.troubles[0].service, page.troubles[0].trouble)
        rows += page.rows
        after = page.next
        if after is None:
            break
    return rows


def _lines(row: Row) -> list[tuple[Any, ...]]:
    return [
        (
            row.device.device_id, cell.at, cell.state, cell.in_cloud, cell.in_edge, cell.on_node, cell.lost,
            cell.unexplained, " ".join(cell.places),
        )
        for cell in row.cells
    ]  # fmt: skip


def _shown(question: Question, grid: Grid, times: TimeRange) -> dict[str, Any]:
    sums = sums_of(grid.rows)
    given = {
        "range": times.name,
        "since": None if times.name else stamp(times.since),
        "until": None if times.name else stamp(times.until),
        "q": question.part_of_name,
        "only": question.only,
        "after": question.after,
    }
    fixed = given | {"range": None, "since": stamp(question.hours[0]), "until": stamp(question.until)}
    return {
        "question": question,
        "grid": grid,
        "sums": sums,
        "sentence": sentence_of(sums),
        "times": times,
        "ranges": RANGES,
        "link": linker("/completeness", given),
        "permalink": linker("/completeness", fixed)(),
        "signs": SIGNS,
        "state_words": WORDS,
        "csv_devices_max": CSV_DEVICES_MAX,
    }


PLACE = Place("completeness", "Completeness", "/completeness", routes)

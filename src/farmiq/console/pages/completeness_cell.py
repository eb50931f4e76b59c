"""One device in one hour: which sequences are not in the cloud, where they were seen last, and what to do."""

import asyncio
from datetime import datetime
from typing import Annotated, Any, Final

from litestar import Response, get
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page
from farmiq.console.fleet import asking
from farmiq.console.fleet.advice import advice
from farmiq.console.fleet.answers import Device, Gap, Gaps, Loss, Losses, Stream
from farmiq.console.fleet.asking import CLOUD, EDGE, stamp, troubles
from farmiq.console.fleet.causes import cause_of_node
from farmiq.console.fleet.cells import Outbox, dead_times, row_of, tiers_of
from farmiq.console.neighbours import Away
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.aggregates import start_of_bucket
from farmiq.timeseries.hours import STEPS, Step

GAPS_MAX: Final = 200
STREAMS_MAX: Final = 5
LOSSES_MAX: Final = 50

COLUMNS: Final = (
    "what", "stream_id", "first_seq", "last_seq", "count", "from", "to", "last_seen_or_cause",
)  # fmt: skip

DeviceName = Annotated[str, QueryParameter(pattern=ID_PATTERN, max_length=64)]


class MissingRange(Struct, frozen=True):
    """`seen` says where it was last known to be."""

    stream: Stream
    gap: Gap
    missing_in: str
    seen: str


def cell_routes(desk: Desk) -> list[Any]:
    @get("/completeness/cell")
    async def cell(
        request: AnyRequest, device_id: DeviceName, at: FromQuery[datetime], window: FromQuery[Step] = "1h"
    ) -> Page:
        if at.tzinfo is None:
            raise ApiError(400, "invalid_request", "The time needs a zone")
        shown = await _cell(desk, desk.tenant(request), device_id, start_of_bucket(at, window), window)
        template = "completeness_cell.html" if "hx-request" in request.headers else "completeness_cell_page.html"
        return desk.show(request, template, **shown)

    @get("/completeness/cell.csv")
    async def cell_csv(
        request: AnyRequest, device_id: DeviceName, at: FromQuery[datetime], window: FromQuery[Step] = "1h"
    ) -> Response[bytes]:
        if at.tzinfo is None:
            raise ApiError(400, "invalid_request", "The time needs a zone")
        shown = await _cell(desk, desk.tenant(request), device_id, start_of_bucket(at, window), window)
        for one in shown["troubles"]:
            raise Away(one.service, one.trouble)
        return csv_response(f"missing-{device_id}", COLUMNS, _lines(shown))

    return [cell, cell_csv]


def _lines(shown: dict[str, Any]) -> list[tuple[Any, ...]]:
    missing = [
        (
            f"missing in the {one.missing_in}", one.stream.stream_id, one.gap.first_seq, one.gap.last_seq, one.gap.count,
            one.gap.after_ts, one.gap.before_ts, one.seen,
        )
        for one in shown["missing"]
    ]  # fmt: skip
    lost = [
        (
            "declared lost", one.stream_id, one.first_seq, one.last_seq, one.count, one.first_ts, one.last_ts,
            cause_of_node(one.reason),
        )
        for one in shown["losses"]
    ]  # fmt: skip
    return missing + lost


async def _cell(desk: Desk, tenant: str, device_id: str, at: datetime, step: Step) -> dict[str, Any]:
    end = at + STEPS[step]
    listed, (edge, cloud), dead, here, there, losses = await asyncio.gather(
        asking.devices_named(desk, tenant, [device_id]),
        asking.coverage(desk, tenant, [device_id], at, end, step),
        asking.dead_letters(desk, tenant),
        asking.streams_of(desk, EDGE, tenant, [device_id]),
        asking.streams_of(desk, CLOUD, tenant, [device_id]),
        asking.ask(
            desk, EDGE, "/api/v1/losses", Losses,
            tenant_id=tenant, device_id=device_id, limit=LOSSES_MAX, **{"from": stamp(at)},
        ),
    )  # fmt: skip
    if listed.value is not None and not listed.value.devices:
        raise ApiError(404, "unknown_device", f"This tenant has no device {device_id}")
    device = listed.value.devices[0] if listed.value else Device(device_id, tenant, "", "", "never_heard", fresh=False)
    edge_tiers, cloud_tiers = tiers_of(edge.value), tiers_of(cloud.value)
    beat = desk.pulse.of(asking.SYNC)
    waiting = None if beat is None or beat.away_since else int(beat.told.get("pending_count", 0))
    row = row_of(
        device,
        [at],
        step,
        None if edge_tiers is None else edge_tiers.get(device_id, {}),
        None if cloud_tiers is None else cloud_tiers.get(device_id, {}),
        Outbox(waiting, dead_times(dead.value).get(device_id, ())),
    )
    found = row.cells[0]
    return {
        "device": device,
        "cell": found,
        "at": at,
        "end": end,
        "step": step,
        "advice": advice(found, device),
        "missing": [
            *await _missing(desk, tenant, EDGE, here.value.streams if here.value else [], device, (at, end)),
            *await _missing(desk, tenant, CLOUD, there.value.streams if there.value else [], device, (at, end)),
        ],
        "losses": _losses_within(losses.value.losses if losses.value else [], at, end),
        "cause_of_node": cause_of_node,
        "troubles": troubles(listed, edge, cloud, dead),
    }


async def _missing(
    desk: Desk, tenant: str, service: str, streams: list[Stream], device: Device, span: tuple[datetime, datetime]
) -> list[MissingRange]:
    torn = sorted((one for one in streams if one.missing), key=lambda one: one.last_seen_at, reverse=True)[:STREAMS_MAX]
    found: list[MissingRange] = []
    for stream in torn:
        path = f"/api/v1/streams/{stream.stream_id}/gaps"
        told = await asking.ask(desk, service, path, Gaps, tenant_id=tenant, limit=GAPS_MAX)
        gaps = told.value.gaps if told.value else []
        tier = "edge" if service == EDGE else "cloud"
        found += [
            MissingRange(stream, gap, tier, where_seen(service, stream, device))
            for gap in gaps
            if _overlaps(gap, *span)
        ]
    return found


def where_seen(service: str, stream: Stream, device: Device) -> str:
    """Of a gap that this service has in that stream."""
    if service == CLOUD:
        return "in the edge database, or further back: see the rows of the edge"
    if device.status is None or device.marks is None:
        return "nowhere: the device does not say what it holds"
    if device.marks.stream_id != stream.stream_id:
        return "nowhere: the device no longer writes this stream"
    return "on the node's disk, by its own word"


def _overlaps(gap: Gap, at: datetime, end: datetime) -> bool:
    """Without times it may lie anywhere, and is shown."""
    first, last = gap.after_ts or gap.before_ts, gap.before_ts or gap.after_ts
    return first is None or last is None or (first < end and last >= at)


def _losses_within(losses: list[Loss], at: datetime, end: datetime) -> list[Loss]:
    return [
        loss
        for loss in losses
        if (loss.first_ts or loss.last_ts or loss.dropped_at) < end
        and (loss.last_ts or loss.first_ts or loss.dropped_at) >= at
    ]

"""Every device: is it there, how far is it safe, how long can it stay alone. Adding one, and taking one out."""

import asyncio
from typing import Annotated, Any, Final, Literal

from litestar import Response, get
from litestar.params import QueryParameter

from farmiq.console.addresses import linker
from farmiq.console.csv_export import csv_response
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.fleet import asking
from farmiq.console.fleet.answers import DeviceCounts, Devices, DeviceState, Stream, Streams
from farmiq.console.fleet.asking import CLOUD, EDGE, Told, troubles
from farmiq.console.fleet.rows import DeviceRow, device_rows
from farmiq.console.neighbours import Away
from farmiq.console.pages.device import device_page_routes
from farmiq.console.pages.device_deeds import KINDS, deed_routes
from farmiq.console.pages.device_tables import table_routes

DEVICES: Final = 50
CSV_PAGE: Final = 500
CSV_DEVICES_MAX: Final = 50_000
STREAMS_AT_ONCE: Final = 2000

PartOfName = Annotated[str | None, QueryParameter(max_length=64)]
AnyState = Annotated[DeviceState | Literal[""], QueryParameter(name="state")]
"""A form sends a choice that was not made as empty."""

COLUMNS: Final = (
    "device_id", "state", "kind", "farm_id", "barn_id", "last_heard_at", "last_sample_at", "on_disk_seq", "in_edge_seq",
    "in_cloud_seq", "edge_lag", "cloud_lag", "spool_bytes", "spool_bytes_max", "runway_seconds", "time_quality",
    "software_version", "added_at", "revoked_at", "unacked_count", "pictures_waiting_count", "failed_sessions_count",
)  # fmt: skip


def routes(desk: Desk) -> list[Any]:
    @get("/devices")
    async def devices(
        request: AnyRequest, q: PartOfName = None, known_as: AnyState = "", after: PartOfName = None
    ) -> Page:
        shown = await _shown(desk, desk.tenant(request), q or None, known_as or None, after)
        return desk.show(request, "devices.html", kinds=KINDS, **shown)

    @get("/devices/rows")
    async def rows(
        request: AnyRequest, q: PartOfName = None, known_as: AnyState = "", after: PartOfName = None
    ) -> Page:
        shown = await _shown(desk, desk.tenant(request), q or None, known_as or None, after)
        return desk.show(request, "devices_rows.html", **shown)

    @get("/devices.csv")
    async def devices_csv(request: AnyRequest, q: PartOfName = None, known_as: AnyState = "") -> Response[bytes]:
        found = await _all_rows(desk, desk.tenant(request), q or None, known_as or None)
        return csv_response("devices", COLUMNS, map(_line, found), rows_max=CSV_DEVICES_MAX)

    return [devices, rows, devices_csv, *deed_routes(desk), *device_page_routes(desk), *table_routes(desk)]


async def _shown(
    desk: Desk, tenant: str, q: str | None, state: DeviceState | None, after: str | None
) -> dict[str, Any]:
    listed, counts = await asyncio.gather(
        asking.devices_like(desk, tenant, q, state=state, after=after, limit=DEVICES),
        asking.ask(desk, EDGE, "/api/v1/device-counts", DeviceCounts, tenant_id=tenant),
    )
    page = listed.value or Devices()
    cloud = await asking.streams_of(desk, CLOUD, tenant, [device.device_id for device in page.devices])
    given = {"q": q, "state": state, "after": after}
    return {
        "rows": device_rows(page.devices, cloud.value.streams if cloud.value else None),
        "counts": counts.value,
        "next": page.next,
        "asked": given,
        "troubles": troubles(listed, counts, cloud),
        "link": linker("/devices", given),
    }


async def _all_rows(desk: Desk, tenant: str, q: str | None, state: DeviceState | None) -> list[DeviceRow]:
    cloud = await _all_streams(desk, tenant)
    found: list[DeviceRow] = []
    after: str | None = None
    while len(found) <= CSV_DEVICES_MAX:
        page = await asking.devices_like(desk, tenant, q, state=state, after=after, limit=CSV_PAGE)
        if page.value is None:
            # A file that ends early without a word would be taken for all of them.
            raise Away(page.service, page.trouble)
        found += device_rows(page.value.devices, cloud.value)
        after = page.value.next
        if after is None:
            break
    return found


class _StreamPage(Streams, frozen=True):
    next: str | None = None


async def _all_streams(desk: Desk, tenant: str) -> Told[list[Stream]]:
    found: list[Stream] = []
    after: str | None = None
    while True:
        page = await asking.ask(
            desk, CLOUD, "/api/v1/streams", _StreamPage, tenant_id=tenant, after=after, limit=STREAMS_AT_ONCE
        )
        if page.value is None:
            return Told(CLOUD, None, page.trouble)
        found += page.value.streams
        after = page.value.next
        if after is None or len(found) >= 4 * CSV_DEVICES_MAX:
            return Told(CLOUD, found)


def _line(row: DeviceRow) -> tuple[Any, ...]:
    device, status = row.device, row.device.status
    return (
        device.device_id, device.state, device.kind, device.farm_id, device.barn_id, device.last_rx_at, device.last_sample_ts,
        row.on_disk, row.in_edge, row.in_cloud, row.edge_lag, row.cloud_lag,
        status.spool_bytes if status else None, status.spool_bytes_max if status else None,
        status.runway_seconds if status else None, device.time_quality, status.software_version if status else None,
        device.created_at, device.revoked_at, status.unacked_count if status else None,
        status.pictures_waiting_count if status else None, status.failed_sessions_count if status else None,
    )  # fmt: skip


PLACE = Place("devices", "Devices", "/devices", routes)

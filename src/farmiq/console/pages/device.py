"""One device: what it says of itself, its streams and their gaps, what it lost, what it measured last."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any, Final

from litestar import get
from litestar.params import PathParameter
from msgspec import Struct

from farmiq.console.desk import AnyRequest, Desk, Page
from farmiq.console.fleet import asking
from farmiq.console.fleet.answers import BrokerRefusals, Device, Events, Gap, Gaps, Limits, Losses, Readings, Stream
from farmiq.console.fleet.asking import CLOUD, EDGE, GATEWAY, Told, stamp, troubles
from farmiq.console.fleet.causes import cause_of_node, limit_words, refusal_words
from farmiq.console.fleet.rows import device_rows
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.http_server import ApiError

ROWS: Final = 20
STREAMS_WITH_GAPS_MAX: Final = 3
EVENTS_AGE: Final = timedelta(days=31)

DevicePath = Annotated[str, PathParameter(pattern=ID_PATTERN, max_length=64)]


class StreamInBoth(Struct, frozen=True):
    """None: that tier has nothing of it, or could not be asked."""

    edge: Stream | None
    cloud: Stream | None

    @property
    def any(self) -> Stream:
        stream = self.edge or self.cloud
        if stream is None:
            raise ValueError("a stream that neither tier has")
        return stream


def device_page_routes(desk: Desk) -> list[Any]:
    @get("/devices/{device_id:str}")
    async def device(request: AnyRequest, device_id: DevicePath) -> Page:
        shown = await facts(desk, desk.tenant(request), device_id)
        return desk.show(request, "device.html", said="", **shown)

    return [device]


async def facts(desk: Desk, tenant: str, device_id: str) -> dict[str, Any]:
    """Everything that the page of one device shows."""
    now = desk.clock.now()
    question = {"tenant_id": tenant, "device_id": device_id, "limit": ROWS}
    (listed, here, there, losses, readings, events), refusals = await asyncio.gather(
        asyncio.gather(
            asking.devices_named(desk, tenant, [device_id]),
            asking.streams_of(desk, EDGE, tenant, [device_id]),
            asking.streams_of(desk, CLOUD, tenant, [device_id]),
            asking.ask(desk, EDGE, "/api/v1/losses", Losses, **question),
            asking.ask(desk, EDGE, "/api/v1/telemetry/readings", Readings, **question),
            asking.ask(desk, CLOUD, "/api/v1/events", Events, **question, **{"from": stamp(now - EVENTS_AGE)}),
        ),
        asking.ask(desk, GATEWAY, "/api/v1/ingress/refusals", BrokerRefusals, **question),
    )
    limits = await asking.ask(desk, GATEWAY, "/api/v1/ingress/limits", Limits, tenant_id=tenant, device_id=device_id)
    if listed.value is not None and not listed.value.devices:
        raise ApiError(404, "unknown_device", f"This tenant has no device {device_id}")
    found = listed.value.devices[0] if listed.value else Device(device_id, tenant, "", "", "never_heard", fresh=False)
    (row,) = device_rows([found], there.value.streams if there.value else None)
    streams = streams_in_both(here.value.streams if here.value else [], there.value.streams if there.value else [])
    return {
        "row": row,
        "device": found,
        "streams": streams,
        "gaps": await _gaps(desk, tenant, streams),
        "losses": losses,
        "readings": readings,
        "events": events,
        "limited": limits.value.limited if limits.value else [],
        "refusals": [(one, *refusal_words(one.kind)) for one in (refusals.value.refusals if refusals.value else ())],
        "cause_of_node": cause_of_node,
        "limit_words": limit_words,
        "troubles": troubles(listed, here, there, losses, readings, events, refusals, limits),
    }


def streams_in_both(edge: list[Stream], cloud: list[Stream]) -> list[StreamInBoth]:
    """The one that was heard last first."""
    here, there = ({stream.stream_id: stream for stream in tier} for tier in (edge, cloud))
    pairs = [StreamInBoth(here.get(name), there.get(name)) for name in dict.fromkeys([*here, *there])]
    return sorted(pairs, key=lambda pair: pair.any.last_seen_at, reverse=True)


async def _gaps(desk: Desk, tenant: str, streams: list[StreamInBoth]) -> list[tuple[str, Stream, Gap]]:
    """Of the newest streams that have any, at both tiers."""
    torn = [
        (service, stream)
        for pair in streams
        for service, stream in ((EDGE, pair.edge), (CLOUD, pair.cloud))
        if stream is not None and stream.missing
    ][: 2 * STREAMS_WITH_GAPS_MAX]
    told: list[Told[Gaps]] = await asyncio.gather(
        *(
            asking.ask(desk, service, f"/api/v1/streams/{stream.stream_id}/gaps", Gaps, tenant_id=tenant, limit=ROWS)
            for service, stream in torn
        )
    )
    return [
        ("edge" if service == EDGE else "cloud", stream, gap)
        for (service, stream), answer in zip(torn, told, strict=True)
        for gap in (answer.value.gaps if answer.value else [])
    ]

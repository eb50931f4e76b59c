"""The requests behind a chart of measurements: bounded in rows, devices side by side."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct

from farmiq.console.curves.answers import (
    BucketPage,
    DevicePage,
    Reading,
    ReadingPage,
    SeriesPage,
    Spans,
)
from farmiq.console.curves.choosing import (
    SERVICE_OF,
    AskedTier,
    Shown,
    Tier,
    TierState,
    is_raw_enough,
    resolution_words,
    tier_to_show,
)
from farmiq.console.curves.drawing import Drawing, SensorCurve, curves_of_buckets, curves_of_readings
from farmiq.console.neighbours import Away, Neighbours
from farmiq.console.pulse import Pulse
from farmiq.console.ranges import TimeRange

RAW_POINTS_MAX: Final = 5000
RAW_PAGES_MAX: Final = 4
BUCKETS_MAX: Final = 5000
SERIES_MAX: Final = 5000
PLACES_MAX: Final = 100


class Wanted(Struct, frozen=True):
    tenant_id: str
    device_ids: Sequence[str]
    metric: str
    sensor: str | None
    time: TimeRange


def tier_state(neighbours: Neighbours, pulse: Pulse) -> TierState:
    def is_away(service: str) -> bool:
        beat = pulse.of(service)
        return beat is not None and beat.away_since is not None

    sync = pulse.of("edge-sync-forwarder")
    behind = sync.told.get("oldest_pending_age_seconds") if sync is not None and sync.away_since is None else None
    return TierState(
        has_cloud=neighbours.knows(SERVICE_OF["cloud"]),
        has_edge=neighbours.knows(SERVICE_OF["edge"]),
        is_cloud_away=is_away(SERVICE_OF["cloud"]),
        is_edge_away=is_away(SERVICE_OF["edge"]),
        behind_seconds=float(behind) if isinstance(behind, int | float) else None,
    )


async def draw(neighbours: Neighbours, wanted: Wanted, asked: AskedTier, state: TierState) -> Drawing:
    """From the tier that was asked for; where that is ours to choose, the other one stands in for one that is away."""
    shown = tier_to_show(asked, state, wanted.time.length)
    try:
        return await _draw(neighbours, wanted, shown)
    except Away as error:
        other: Tier = "edge" if shown.tier == "cloud" else "cloud"
        if asked != "auto" or not neighbours.knows(SERVICE_OF[other]):
            raise
        return await _draw(
            neighbours, wanted, Shown(other, f"{error.service} does not answer: this is what the {other} has.")
        )


async def series_of(neighbours: Neighbours, tenant_id: str, tier: Tier, device_id: str | None = None) -> SeriesPage:
    """Which metrics there are. `next` is set when there are more than are told."""
    return await neighbours.get(
        SERVICE_OF[tier], "/api/v1/telemetry/metrics", SeriesPage,
        tenant_id=tenant_id, device_id=device_id, limit=SERIES_MAX,
    )  # fmt: skip


async def devices_of_barn(
    neighbours: Neighbours, tenant_id: str, device_id: str, candidates: Sequence[str]
) -> list[str]:
    """Those of the candidates that stand in the same barn, as the edge knows it. Of very many, the first are looked at."""
    asked = list(dict.fromkeys([device_id, *candidates]))[:PLACES_MAX]
    page = await neighbours.get(
        SERVICE_OF["edge"], "/api/v1/devices", DevicePage, tenant_id=tenant_id, device_ids=asked, limit=PLACES_MAX
    )
    barns = {found.device_id: (found.farm_id, found.barn_id) for found in page.devices}
    return [other for other in asked if other != device_id and other in barns and barns[other] == barns.get(device_id)]


async def _draw(neighbours: Neighbours, wanted: Wanted, shown: Shown) -> Drawing:
    service = SERVICE_OF[shown.tier]
    window: str | None = None
    found = await _readings(neighbours, service, wanted) if is_raw_enough(wanted.time.length) else None
    if found is None:
        window, found = await _buckets(neighbours, service, wanted)
    spans = await asyncio.gather(*(_spans(neighbours, service, wanted, device) for device in wanted.device_ids))
    return Drawing(
        wanted.metric,
        wanted.time.since,
        wanted.time.until,
        found,
        dict(zip(wanted.device_ids, spans, strict=True)),
        [shown.note, resolution_words(window)],
    )


async def _readings(neighbours: Neighbours, service: str, wanted: Wanted) -> list[SensorCurve] | None:
    """None when there are too many to draw."""
    most = RAW_POINTS_MAX // max(1, len(wanted.device_ids))
    found = await asyncio.gather(
        *(_readings_of(neighbours, service, wanted, device, most) for device in wanted.device_ids)
    )
    curves: list[SensorCurve] = []
    for device_id, readings in zip(wanted.device_ids, found, strict=True):
        if readings is None:
            return None
        curves += curves_of_readings(device_id, readings)
    return curves


async def _readings_of(
    neighbours: Neighbours, service: str, wanted: Wanted, device_id: str, most: int
) -> list[Reading] | None:
    found: list[Reading] = []
    after: str | None = None
    for _ in range(RAW_PAGES_MAX):
        page = await neighbours.get(
            service, "/api/v1/telemetry/readings", ReadingPage, limit=most, after=after,
            **_question(wanted, device_id),
        )  # fmt: skip
        found += page.readings
        after = page.next
        if after is None or len(found) >= most:
            break
    return found if after is None else None


async def _buckets(neighbours: Neighbours, service: str, wanted: Wanted) -> tuple[str, list[SensorCurve]]:
    pages = await asyncio.gather(
        *(
            neighbours.get(
                service, "/api/v1/telemetry/aggregates", BucketPage, limit=BUCKETS_MAX, **_question(wanted, device_id)
            )
            for device_id in wanted.device_ids
        )
    )
    curves: list[SensorCurve] = []
    for device_id, page in zip(wanted.device_ids, pages, strict=True):
        curves += curves_of_buckets(device_id, page.window, page.buckets)
    return (pages[0].window if pages else "1m"), curves


async def _spans(neighbours: Neighbours, service: str, wanted: Wanted, device_id: str) -> Spans:
    times = _times(wanted.time)
    return await neighbours.get(
        service, "/api/v1/telemetry/spans", Spans, tenant_id=wanted.tenant_id, device_id=device_id, **times
    )


def _question(wanted: Wanted, device_id: str) -> dict[str, str | None]:
    return {
        "tenant_id": wanted.tenant_id,
        "device_id": device_id,
        "metric": wanted.metric,
        "sensor": wanted.sensor,
        **_times(wanted.time),
    }


def _times(time: TimeRange) -> dict[str, str]:
    # An edge's clock may be ahead of ours by a little: what it has just stored belongs to "up to now".
    ahead = timedelta(seconds=5) if time.name is not None else timedelta()
    return {"from": time.since.isoformat(), "to": (time.until + ahead).isoformat()}

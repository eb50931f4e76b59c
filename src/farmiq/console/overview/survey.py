"""What is asked besides the pulse: once for all who look, and so seldom that it costs the services nothing to speak of."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from math import inf
from typing import Any, Final, TypeVar

from msgspec import Struct

from farmiq.alerting.history import Sample
from farmiq.alerting.scrape import NotScraped, parse
from farmiq.console.fleet.answers import Limits
from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.console.overview.delay import Buckets, Delay, delay
from farmiq.console.overview.figures import (
    Bus,
    Day,
    Figures,
    Fleet,
    Link,
    Lost,
    Pictures,
    Room,
    StationsLost,
    Summary,
    SummaryPage,
    Weighings,
)
from farmiq.kit.clock import Clock
from farmiq.kit.rested import Rested

DAY: Final = timedelta(hours=24)
DEVICES_AT_ONCE: Final = 2000
SESSIONS_MAX: Final = 500
TENANTS_MAX: Final = 1000
DELAY_WINDOW_SECONDS: Final = 300.0
PATIENCE_SECONDS: Final = 0.4
FIRST_PATIENCE_SECONDS: Final = 2.0
"""Whoever opens the page waits this long for figures that nobody has asked for before, and sees a dash then."""

DELAY_BUCKET: Final = "farmiq_end_to_end_delay_seconds_bucket"
QUEUE_MESSAGES: Final = "farmiq_bus_queue_messages"
PICTURES_SENT: Final = "farmiq_media_sync_sent_total"
PICTURE_BYTES: Final = "farmiq_media_stored_bytes_total"
PICTURE_BYTES_SINCE: Final = "farmiq_media_stored_bytes_created"
STORING: Final = "cloud-telemetry-service"
SUMMARY: Final = "/api/v1/telemetry/summary"
DEAD_QUEUE: Final = ".dlq.queue"
BUS_SERVICES: Final = (STORING, "cloud-analytics-service", "cloud-media-store")

T = TypeVar("T")


class Links(Struct, frozen=True):
    links: list[Link] = []


class Measured(Struct, frozen=True):
    """What some services showed on `/metrics` at one moment."""

    at: float
    samples: Mapping[str, Sequence[Sample]]


class Survey:
    def __init__(self, neighbours: Neighbours, clock: Clock) -> None:
        self._neighbours = neighbours
        self._clock = clock
        self._days: dict[str, Rested[Day]] = {}
        self._fleets: dict[str, Rested[Fleet]] = {}
        self._links = self._rested(self._ask_links, 1.0)
        self._pictures: dict[str, Rested[Pictures]] = {}
        self._weighings: dict[str, Rested[Weighings]] = {}
        self._limits: dict[str, Rested[Limits]] = {}
        self._room = self._rested(self._ask_room, 10.0)
        self._measured = self._rested(self._measure, 5.0)
        self._memory: deque[Measured] = deque()

    async def figures(self, tenant_id: str) -> Figures:
        days = self._of(self._days, tenant_id, self._ask_day, 5.0)
        fleets = self._of(self._fleets, tenant_id, self._ask_fleet, 2.0)
        kept = self._of(self._pictures, tenant_id, self._ask_pictures, 2.0)
        weighed = self._of(self._weighings, tenant_id, self._ask_weighings, 5.0)
        limited = self._of(self._limits, tenant_id, self._ask_limits, 5.0)
        async with asyncio.TaskGroup() as group:
            day = group.create_task(_known(days))
            fleet = group.create_task(_known(fleets))
            links = group.create_task(_known(self._links))
            pictures = group.create_task(_known(kept))
            weighings = group.create_task(_known(weighed))
            limits = group.create_task(_known(limited))
            room = group.create_task(_known(self._room))
            measured = group.create_task(_known(self._measured))
        seen = measured.result()
        return Figures(
            day=day.result() or Day(),
            fleet=fleet.result(),
            link=_link_of(tenant_id, links.result()),
            pictures=pictures.result(),
            weighings=weighings.result(),
            limits=limits.result() or Limits(),
            room=room.result() or Room(),
            bus=_bus(seen) if seen else Bus(),
            delay=self._delay(),
            pictures_per_second=self._rate("edge-sync-forwarder", PICTURES_SENT),
            picture_bytes_per_second=self._picture_bytes_per_second(),
        )

    def _rested(self, ask: Callable[[], Awaitable[T]], rest_seconds: float) -> Rested[T]:
        return Rested(ask, self._clock, rest_seconds=rest_seconds, patience_seconds=PATIENCE_SECONDS)

    def _of(
        self,
        kept: dict[str, Rested[T]],
        tenant_id: str,
        ask: Callable[[str], Awaitable[T]],
        rest_seconds: float,
    ) -> Rested[T]:
        if tenant_id not in kept:
            if len(kept) >= TENANTS_MAX:
                kept.pop(next(iter(kept)))
            kept[tenant_id] = self._rested(lambda: ask(tenant_id), rest_seconds)
        return kept[tenant_id]

    async def _ask_day(self, tenant_id: str) -> Day:
        until = self._clock.now()
        ends = {"from": (until - DAY).isoformat(), "to": until.isoformat()}
        asked = {"tenant_id": tenant_id, **ends, "limit": DEVICES_AT_ONCE, "by_device": "true"}
        edge = await _or_none(self._summary("edge-telemetry-timeseries", asked))
        return Day(edge, await _or_none(self._summary(STORING, asked)))

    async def _summary(self, service: str, asked: Mapping[str, Any]) -> Summary:
        """In pages: the answer about ten thousand devices at once would take longer than anybody waits."""
        first = page = await self._neighbours.get(service, SUMMARY, SummaryPage, **asked)
        stored, by_device = first.stored, _by_device(first)
        while page.next is not None:
            page = await self._neighbours.get(service, SUMMARY, SummaryPage, **asked, after=page.next)
            stored += page.stored
            by_device |= _by_device(page)
        return Summary(
            stored, first.missing or 0, first.lost or Lost(), first.stations_lost or StationsLost(), by_device
        )

    async def _ask_fleet(self, tenant_id: str) -> Fleet:
        return await self._neighbours.get("edge-telemetry-timeseries", "/api/v1/fleet", Fleet, tenant_id=tenant_id)

    async def _ask_links(self) -> Links:
        return await self._neighbours.get("edge-sync-forwarder", "/api/v1/sync/detail", Links)

    async def _ask_pictures(self, tenant_id: str) -> Pictures:
        asked = {"tenant_id": tenant_id, "status": "pending", "limit": 100}
        return await self._neighbours.get("edge-sync-forwarder", "/api/v1/sync/media", Pictures, **asked)

    async def _ask_weighings(self, tenant_id: str) -> Weighings:
        asked = {"tenant_id": tenant_id, "incomplete": "true", "limit": SESSIONS_MAX}
        path = "/api/v1/weighvision/sessions"
        return await self._neighbours.get("edge-weighvision-session", path, Weighings, **asked)

    async def _ask_limits(self, tenant_id: str) -> Limits:
        return await self._neighbours.get("edge-ingress-gateway", "/api/v1/ingress/limits", Limits, tenant_id=tenant_id)

    async def _ask_room(self) -> Room:
        return await self._neighbours.get("edge-sync-forwarder", "/api/v1/sync/room", Room)

    async def _measure(self) -> Measured:
        wanted = {DELAY_BUCKET, QUEUE_MESSAGES, PICTURES_SENT, PICTURE_BYTES, PICTURE_BYTES_SINCE}
        services = [name for name in (*BUS_SERVICES, "edge-sync-forwarder", "edge-media-store") if self._knows(name)]
        answers = await asyncio.gather(*(self._metrics(name, wanted) for name in services))
        told = {name: samples for name, samples in zip(services, answers, strict=True) if samples is not None}
        measured = Measured(self._clock.monotonic(), told)
        self._memory.append(measured)
        while self._memory[0].at < measured.at - DELAY_WINDOW_SECONDS:
            self._memory.popleft()
        return measured

    def _knows(self, service: str) -> bool:
        return self._neighbours.knows(service)

    async def _metrics(self, service: str, wanted: set[str]) -> list[Sample] | None:
        try:
            answer = await self._neighbours.ask(service, "GET", "/metrics")
            return parse(service, answer.body, wanted)
        except (Away, Refused, NotScraped):
            return None

    def _delay(self) -> Delay | None:
        told = [entry for entry in self._memory if STORING in entry.samples]
        if not told:
            return None
        earlier = _buckets(told[0]) if len(told) > 1 else None
        return delay(_buckets(told[-1]), earlier, told[-1].at - told[0].at)

    def _picture_bytes_per_second(self) -> float | None:
        """Pictures come in bursts: at least as many as since the service started."""
        told = [entry.samples["edge-media-store"] for entry in self._memory if "edge-media-store" in entry.samples]
        if not told or not (since := total(told[-1], PICTURE_BYTES_SINCE)):
            return None
        lasted_seconds = max(1.0, self._clock.now().timestamp() - since)
        return max(
            total(told[-1], PICTURE_BYTES) / lasted_seconds, self._rate("edge-media-store", PICTURE_BYTES) or 0.0
        )

    def _rate(self, service: str, name: str) -> float | None:
        """A second, over what is remembered."""
        told = [(entry.at, total(entry.samples[service], name)) for entry in self._memory if service in entry.samples]
        if len(told) < 2 or told[-1][1] < told[0][1]:
            return None
        return (told[-1][1] - told[0][1]) / (told[-1][0] - told[0][0])


def _by_device(page: SummaryPage) -> dict[str, int]:
    return {one.device_id: one.stored for one in page.devices or ()}


async def _known(rested: Rested[T]) -> T | None:
    """None when it is not known; the pulse says which service is away, and since when."""
    try:
        async with asyncio.timeout(FIRST_PATIENCE_SECONDS):
            return await rested.get()
    except (Away, Refused, TimeoutError):
        return None


async def _or_none(asking: Awaitable[T]) -> T | None:
    try:
        return await asking
    except (Away, Refused):
        return None


def _link_of(tenant_id: str, links: Links | None) -> Link | None:
    """A tenant that never sent anything has no way yet, and nothing is wrong with it."""
    if links is None:
        return None
    return next((link for link in links.links if link.tenant_id == tenant_id), Link(tenant_id))


def total(samples: Sequence[Sample], name: str) -> float:
    return sum(sample.value for sample in samples if sample.metric == name)


def _buckets(measured: Measured) -> Buckets:
    found: dict[float, float] = {}
    for sample in measured.samples[STORING]:
        labels = dict(sample.labels)
        if sample.metric == DELAY_BUCKET and labels.get("lane") == "live":
            end = inf if labels["le"] == "+Inf" else float(labels["le"])
            found[end] = found.get(end, 0.0) + sample.value
    return found


def _bus(measured: Measured) -> Bus:
    """Every queue belongs to one service, which looks into it now and then."""
    depths = {
        dict(sample.labels).get("queue", ""): int(sample.value)
        for service in BUS_SERVICES
        for sample in measured.samples.get(service, ())
        if sample.metric == QUEUE_MESSAGES
    }
    if not depths:
        return Bus()
    dead = {queue: depth for queue, depth in depths.items() if queue.endswith(DEAD_QUEUE)}
    waiting = sum(depth for queue, depth in depths.items() if queue not in dead)
    return Bus(waiting, sum(dead.values()), {queue: depth for queue, depth in dead.items() if depth})

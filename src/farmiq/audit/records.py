"""Rows that two services have under one id: readings, weights, pictures that were taken, results of models and losses of the
edge, which the cloud has too, and hours of the cloud, which analytics has too.

Digests of days first; of days that differ, each row by name.
"""

import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.findings import Finding, found
from farmiq.audit.streams import BusRoom
from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.kit.day_digests import DayDigest, DayDigests

CLOUD: Final = "cloud-telemetry-service"
ANALYTICS: Final = "cloud-analytics-service"
TELEMETRY: Final = "edge-telemetry-timeseries"
A_PAGE: Final = 5000
NAMED_MAX: Final = 100
DAY: Final = timedelta(days=1)

Explain = Callable[["Record"], bool]


class RecordKind(Struct, frozen=True):
    """`source` has it first and `copy` is told of it. `is_kept_for_good`: the source never deletes one."""

    name: str
    noun: str
    source: str
    copy: str = CLOUD
    is_kept_for_good: bool = False


READINGS: Final = RecordKind("readings", "single reading", TELEMETRY)
WEIGHTS: Final = RecordKind("weights", "recorded weight", "edge-weighvision-session")
IMAGES: Final = RecordKind("images", "picture that was taken", "edge-weighvision-session")
RESULTS: Final = RecordKind("results", "result of a model", "edge-vision-inference")
LOSSES: Final = RecordKind("losses", "declared loss", TELEMETRY, is_kept_for_good=True)
STATION_LOSSES: Final = RecordKind("station-losses", "declared loss of a station", TELEMETRY, is_kept_for_good=True)
HOURS: Final = RecordKind("hours", "hour", CLOUD, ANALYTICS, is_kept_for_good=True)
KINDS: Final = (READINGS, WEIGHTS, IMAGES, RESULTS, LOSSES, STATION_LOSSES)
"""What the edge has, and the cloud is told of."""


class Record(Struct, frozen=True):
    id: UUID
    device_id: str
    at: datetime
    content: str


class RecordReading(Struct, frozen=True):
    """Of one kind. `waiting`: events about these are in the edge's outbox. `recent`: the cloud acknowledged events about these so
    lately that they can still be on its bus."""

    kind: RecordKind
    differing: list[tuple[Record, Record]] = []
    missing: list[Record] = []
    surplus: list[Record] = []
    waiting: frozenset[UUID] = frozenset()
    recent: frozenset[UUID] = frozenset()

    def among(self, device_ids: Collection[str]) -> "RecordReading":
        return replace(
            self,
            differing=[pair for pair in self.differing if pair[0].device_id in device_ids],
            missing=[one for one in self.missing if one.device_id in device_ids],
            surplus=[one for one in self.surplus if one.device_id in device_ids],
        )


class Asked(NamedTuple):
    """What is compared: `query` names the tenant, the device and the times. `own_devices`: those that are registered with the
    source, and since when: what the copy has of them from then on, the source should have too."""

    query: Mapping[str, Any]
    own_devices: Mapping[str, datetime | None]
    until: datetime


class _Page(Struct, frozen=True):
    records: list[Record]
    next: str | None = None


def balance_records(tenant_id: str, readings: Collection[RecordReading], bus: BusRoom) -> list[Finding]:
    findings = []
    for reading in readings:
        noun = reading.kind.noun
        lost = [one for one in reading.missing if not is_on_its_way(reading, one, bus)]
        findings += [
            _finding(
                "record_differs", tenant_id, here, f"{noun}, {here.content} at the edge, {there.content} in the cloud"
            )
            for here, there in reading.differing[:NAMED_MAX]
        ]
        findings += [_finding("record_missing", tenant_id, one, f"{noun}, {one.content}") for one in lost[:NAMED_MAX]]
        findings += [
            _finding("record_surplus", tenant_id, one, f"{noun}, {one.content}") for one in reading.surplus[:NAMED_MAX]
        ]
    return findings


def is_on_its_way(reading: RecordReading, record: Record, bus: BusRoom) -> bool:
    return record.id in reading.waiting or (record.id in reading.recent and bus.take(1) == 1)


def balance_hours(tenant_id: str, reading: RecordReading) -> list[Finding]:
    """What analytics has not, or has otherwise."""
    copied = [
        *((one, "analytics does not have it") for one in reading.missing),
        *((here, f"analytics has {_hour_in_words(there)}") for here, there in reading.differing),
        *((one, "only analytics has it") for one in reading.surplus),
    ]
    return [
        replace(finding, what=f"{finding.what}: {_hour_in_words(one)} of {one.at:%Y-%m-%d %H:%M} UTC; {words}")
        for one, words in copied[:NAMED_MAX]
        for finding in [found("analytics_differs", tenant_id, str(one.id), 1, device_id=one.device_id, tier="cloud")]
    ]


def _finding(kind: str, tenant_id: str, record: Record, words: str) -> Finding:
    finding = found(kind, tenant_id, str(record.id), 1, device_id=record.device_id or None)
    return replace(finding, what=f"{finding.what}: {words}")


def _hour_in_words(record: Record) -> str:
    metric, sensor, unit, _, count, mean, low, high = json.loads(record.content)[:8]
    return f"{metric} {sensor} {count} samples, mean {mean:g} {unit}, {low:g} to {high:g}"


async def read_records(
    neighbours: Neighbours,
    asked: Asked,
    waiting: frozenset[UUID],
    recent: frozenset[UUID],
    notes: list[str],
    kinds: Collection[RecordKind] = KINDS,
) -> list[RecordReading]:
    """`waiting` and `recent`: what events are about that are in the edge's outbox, and that may be on the bus."""
    readings = [await read_kind(neighbours, kind, asked, notes) for kind in kinds]
    return [replace(one, waiting=waiting, recent=recent) for one in readings if one is not None]


async def read_hours(
    neighbours: Neighbours, asked: Asked, oldest_seconds: float | None, notes: list[str]
) -> RecordReading | None:
    """Hours that the bus is to be told of, and those that changed within the age of the oldest message for analytics, are on
    their way. `oldest_seconds` is None where no message waits."""
    reading = await read_kind(neighbours, HOURS, asked, notes)
    if reading is None:
        return None

    def is_coming(one: Record) -> bool:
        *_, is_unsent, changed_seconds = json.loads(one.content)
        return bool(is_unsent) or (oldest_seconds is not None and float(changed_seconds) <= oldest_seconds)

    def has_changed(pair: tuple[Record, Record]) -> bool:
        here, there = (json.loads(one.content)[4:8] for one in pair)
        return bool(here != there) and not is_coming(pair[0])

    return replace(
        reading,
        missing=[one for one in reading.missing if not is_coming(one)],
        differing=[pair for pair in reading.differing if has_changed(pair)],
    )


async def read_kind(neighbours: Neighbours, kind: RecordKind, asked: Asked, notes: list[str]) -> RecordReading | None:
    """None, and a note, where a service does not offer it."""
    try:
        return await _read(neighbours, kind, asked)
    except (Away, Refused) as error:
        if isinstance(error, Refused) and error.status != 404:
            raise
        if isinstance(error, Away) and neighbours.knows(error.service):
            raise
        note = f"Each {kind.noun} was not compared: {error.service} does not offer it."
        if note not in notes:
            notes.append(note)
        return None


async def _read(neighbours: Neighbours, kind: RecordKind, asked: Asked) -> RecordReading:
    path = f"/api/v1/records/{kind.name}"
    copied = await neighbours.get(kind.copy, f"{path}/days", DayDigests, **asked.query)
    known = await neighbours.get(kind.source, f"{path}/days", DayDigests, **asked.query)
    own = _own(kind, asked, known.kept_since)
    there, here = _by_day(copied.days), _by_day(known.days)
    if copied.kept_since is not None:
        # Of the day in which a retention ends there is only a part.
        here = {key: rows for key, rows in here.items() if key[1] >= copied.kept_since}
        there = {key: rows for key, rows in there.items() if key[1] >= copied.kept_since}
    uneven = {key for key in {*here, *(key for key in there if _is_own(own, *key))} if here.get(key) != there.get(key)}
    copies: dict[UUID, Record] = {}
    sources: dict[UUID, Record] = {}
    for first, last in runs_of_days({day for _, day in uneven}, asked.query):
        days = {**asked.query, "from": first.isoformat(), "to": last.isoformat()}
        copies |= {one.id: one async for one in records_of(neighbours, kind.copy, path, days)}
        sources |= {one.id: one async for one in records_of(neighbours, kind.source, path, days)}
    kept_since = copied.kept_since
    return RecordReading(
        kind,
        differing=[(one, copies[key]) for key, one in sources.items() if key in copies and one != copies[key]],
        missing=[
            one
            for key, one in sources.items()
            if key not in copies and (kept_since is None or one.at >= kept_since + DAY)
        ],
        surplus=[
            one
            for key, one in copies.items()
            if key not in sources and one.device_id in own and own[one.device_id] <= one.at < asked.until
        ],
    )


def _own(kind: RecordKind, asked: Asked, kept_since: datetime | None) -> dict[str, datetime]:
    """Since when the source should have everything of its devices."""
    if kind.is_kept_for_good:
        return dict.fromkeys(asked.own_devices, _since(asked.query))
    if kept_since is None:
        return {}
    return {
        name: max(created_at, kept_since) for name, created_at in asked.own_devices.items() if created_at is not None
    }


def _is_own(own: Mapping[str, datetime], device_id: str, day: datetime) -> bool:
    return device_id in own and (own[device_id] - day) < DAY


def _since(query: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(query["from"])


async def records_of(
    neighbours: Neighbours, service: str, path: str, query: Mapping[str, Any]
) -> AsyncIterator[Record]:
    after: str | None = None
    while True:
        page = await neighbours.get(service, path, _Page, **query, after=after, limit=A_PAGE)
        for one in page.records:
            yield one
        after = page.next
        if after is None:
            return


def _by_day(days: Collection[DayDigest]) -> dict[tuple[str, datetime], set[tuple[str, int, str]]]:
    found_days: dict[tuple[str, datetime], set[tuple[str, int, str]]] = {}
    for day in days:
        found_days.setdefault((day.device_id, day.day_at), set()).add((day.state, day.rows, day.digest))
    return found_days


def runs_of_days(days: Collection[datetime], query: Mapping[str, Any]) -> list[tuple[datetime, datetime]]:
    """Days beside each other as one question; a day more at both ends, should the tiers not agree on when something was."""
    ordered = sorted(days)
    if not ordered:
        return []
    breaks = [index for index, (one, other) in enumerate(pairwise(ordered), 1) if other - one > 3 * DAY]
    earliest, latest = _since(query), datetime.fromisoformat(query["to"])
    return [
        (max(ordered[first], earliest + DAY) - DAY, min(ordered[end - 1], latest - 2 * DAY) + 2 * DAY)
        for first, end in pairwise([0, *breaks, len(ordered)])
    ]

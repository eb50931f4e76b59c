"""Recorded weights, results of models and declared losses: what each tier has under one id says the same.

Digests of days first; of days that differ, each row by name.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.audit.findings import Finding, found
from farmiq.audit.streams import BusRoom
from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.contracts import event_types
from farmiq.contracts.station import STATION_LOSS
from farmiq.kit.day_digests import DayDigest, DayDigests

CLOUD: Final = "cloud-telemetry-service"
TELEMETRY: Final = "edge-telemetry-timeseries"
A_PAGE: Final = 5000
NAMED_MAX: Final = 100
DAY: Final = timedelta(days=1)


class RecordKind(Struct, frozen=True):
    """`is_kept_for_good`: the edge never deletes one, so that the cloud can't have more."""

    name: str
    noun: str
    edge: str
    event_type: str
    is_kept_for_good: bool = False


KINDS: Final = (
    RecordKind("weights", "recorded weight", "edge-weighvision-session", event_types.WEIGHT_RECORDED),
    RecordKind("results", "result of a model", "edge-vision-inference", event_types.INFERENCE_COMPLETED),
    RecordKind("losses", "declared loss", TELEMETRY, event_types.TELEMETRY_LOSS, is_kept_for_good=True),
    RecordKind("station-losses", "declared loss of a station", TELEMETRY, STATION_LOSS, is_kept_for_good=True),
)


class Record(Struct, frozen=True):
    id: UUID
    device_id: str
    at: datetime
    content: str


class RecordReading(Struct, frozen=True):
    """Of one kind. `is_waiting`: events of the kind are in the edge's outbox, so that what the cloud lacks may come."""

    kind: RecordKind
    differing: list[tuple[Record, Record]] = []
    missing: list[Record] = []
    surplus: list[Record] = []
    is_waiting: bool = False


class _Page(Struct, frozen=True):
    records: list[Record]
    next: str | None = None


def balance_records(tenant_id: str, readings: Collection[RecordReading], bus: BusRoom) -> list[Finding]:
    findings = []
    for reading in readings:
        noun = reading.kind.noun
        lost = [one for one in reading.missing[:NAMED_MAX] if not reading.is_waiting and not bus.take(1)]
        findings += [
            _finding(
                "record_differs", tenant_id, here, f"{noun}, {here.content} at the edge, {there.content} in the cloud"
            )
            for here, there in reading.differing[:NAMED_MAX]
        ]
        findings += [_finding("record_missing", tenant_id, one, f"{noun}, {one.content}") for one in lost]
        findings += [
            _finding("record_surplus", tenant_id, one, f"{noun}, {one.content}") for one in reading.surplus[:NAMED_MAX]
        ]
    return findings


def _finding(kind: str, tenant_id: str, record: Record, words: str) -> Finding:
    finding = found(kind, tenant_id, str(record.id), 1, device_id=record.device_id or None)
    return replace(finding, what=f"{finding.what}: {words}")


async def read_records(
    neighbours: Neighbours,
    query: Mapping[str, Any],
    own_devices: Collection[str],
    waiting: Mapping[str, int],
    notes: list[str],
) -> list[RecordReading]:
    """`query`: tenant, device and times. `waiting`: events in the edge's outbox, by type."""
    readings = []
    for kind in KINDS:
        try:
            reading = await _read(neighbours, kind, query, own_devices)
        except (Away, Refused) as error:
            if isinstance(error, Refused) and error.status != 404:
                raise
            if isinstance(error, Away) and neighbours.knows(error.service):
                raise
            notes.append(f"Each {kind.noun} was not compared between the tiers: {error.service} does not offer it.")
            continue
        readings.append(replace(reading, is_waiting=kind.event_type in waiting))
    return readings


async def _read(
    neighbours: Neighbours, kind: RecordKind, query: Mapping[str, Any], own_devices: Collection[str]
) -> RecordReading:
    path = f"/api/v1/records/{kind.name}"
    there = _by_day((await neighbours.get(CLOUD, f"{path}/days", DayDigests, **query)).days)
    here = _by_day((await neighbours.get(kind.edge, f"{path}/days", DayDigests, **query)).days)
    own = {key for key in there if kind.is_kept_for_good and key[0] in own_devices}
    uneven = {key for key in {*here, *own} if here.get(key) != there.get(key)}
    cloud: dict[UUID, Record] = {}
    edge: dict[UUID, Record] = {}
    for first, last in _runs({day for _, day in uneven}):
        days = {**query, "from": max(first, _since(query)).isoformat(), "to": last.isoformat()}
        cloud |= {one.id: one async for one in _records(neighbours, CLOUD, path, days)}
        edge |= {one.id: one async for one in _records(neighbours, kind.edge, path, days)}
    return RecordReading(
        kind,
        differing=[(one, cloud[key]) for key, one in edge.items() if key in cloud and one != cloud[key]],
        missing=[one for key, one in edge.items() if key not in cloud],
        surplus=[
            one
            for key, one in cloud.items()
            if kind.is_kept_for_good and key not in edge and one.device_id in own_devices
        ],
    )


def _since(query: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(query["from"])


async def _records(neighbours: Neighbours, service: str, path: str, query: Mapping[str, Any]) -> AsyncIterator[Record]:
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


def _runs(days: Collection[datetime]) -> list[tuple[datetime, datetime]]:
    """Days beside each other as one question; a day more at both ends, should the tiers not agree on when something was."""
    ordered = sorted(days)
    if not ordered:
        return []
    breaks = [index for index, (one, other) in enumerate(pairwise(ordered), 1) if other - one > 3 * DAY]
    return [(ordered[first] - DAY, ordered[end - 1] + 2 * DAY) for first, end in pairwise([0, *breaks, len(ordered)])]

"""The ledger of losses as one list: what nodes and weigh stations gave up, and which tiers have written it down."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from farmiq.console.fleet.answers import Loss, Losses, LossSummary, StationLoss, StationLosses, StationLossPayload
from farmiq.console.fleet.causes import cause_of_node, cause_of_station
from farmiq.console.wording import duration
from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import EARLIEST, to_utc
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.paging import cursor

REASON_CHARS_MAX: Final = 120
UNREADABLE: Final = "not readable"
_ID: Final = re.compile(ID_PATTERN)


class LedgerQuestion(Struct, frozen=True):
    device: str | None
    reason: str | None
    since: datetime
    until: datetime | None
    after: str | None = None

    @classmethod
    def of(
        cls,
        device: str | None,
        reason: str | None,
        since: datetime | None,
        until: datetime | None,
        after: str | None = None,
    ) -> "LedgerQuestion":
        if any(at is not None and at.tzinfo is None for at in (since, until)):
            raise ApiError(400, "invalid_request", "Times need a zone: 2025-01-01T10:00:00Z")
        return cls(
            device or None, reason or None, to_utc(since) if since else EARLIEST, until and to_utc(until), after or None
        )

    @property
    def is_possible(self) -> bool:
        return all(name is None or _ID.search(name) for name in (self.device, self.reason))

    def fits(self, entry: "Entry") -> bool:
        """The reasons of stations are looked at here: to those who keep their events they are a payload like any other."""
        return self.reason is None or entry.reason == self.reason

    def from_there(self, after: str) -> "LedgerQuestion":
        return replace(self, after=after)

    def parameters(self) -> dict[str, str | None]:
        return {
            "device": self.device,
            "reason": self.reason,
            "since": None if self.since == EARLIEST else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "after": self.after,
        }


class Entry(Struct, frozen=True):
    """`at_edge` and `in_cloud`: when that tier wrote it down; None when it has not, or could not be asked."""

    event_id: UUID
    kind: str
    device_id: str
    declared_at: datetime
    reason: str
    cause: str
    count: int
    is_count_exact: bool = True
    pictures: int = 0
    stream_id: UUID | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    at_edge: datetime | None = None
    in_cloud: datetime | None = None


class Month(Struct, frozen=True):
    at: datetime
    records: int
    samples: int


def entries_of(edge: Losses | None, cloud: Losses | None, stations: StationLosses | None) -> list[Entry]:
    """Newest first, each once."""
    here = {loss.event_id: loss for loss in (edge.losses if edge else [])}
    there = {loss.event_id: loss for loss in (cloud.losses if cloud else [])}
    nodes = [_of_node(here.get(name), there.get(name)) for name in {**here, **there}]
    found = [*nodes, *(_of_station(event) for event in (stations.events if stations else []))]
    return sorted(found, key=lambda entry: (entry.declared_at, entry.event_id), reverse=True)


def next_page(entries: Sequence[Entry], limit: int) -> str | None:
    """Where the next page begins, if there is one: the same words for both tiers, which keep the ledger in one order."""
    if len(entries) <= limit:
        return None
    last = entries[limit - 1]
    return cursor((last.declared_at, last.event_id))


def of_stations(entries: Iterable[Entry]) -> int:
    return sum(entry.kind == "station" for entry in entries)


def months_of(summary: LossSummary | None) -> list[Month]:
    """Newest first, all causes together."""
    found: dict[datetime, Month] = {}
    for one in summary.sums if summary else []:
        before = found.get(one.month_at, Month(one.month_at, 0, 0))
        found[one.month_at] = Month(one.month_at, before.records + one.records, before.samples + one.samples)
    return sorted(found.values(), key=lambda month: month.at, reverse=True)


def ledger_sentence(
    edge: LossSummary | None, cloud: LossSummary | None, station_losses: int, now: datetime
) -> tuple[str, str]:
    """Kind and words. What one tier has not been told yet, the other one knows."""
    known = [summary for summary in (edge, cloud) if summary is not None]
    if not known:
        return "warn", "Whether anything was lost is not known just now."
    records = max(summary.records for summary in known)
    since = min((summary.since for summary in known if summary.since is not None), default=None)
    if records:
        samples = max(summary.samples_lost for summary in known)
        last_at = max(summary.last_at for summary in known if summary.last_at is not None)
        ago = duration((now - last_at).total_seconds())
        return "warn", f"{samples:,} samples were given up in {records:,} losses; the last one {ago} ago."
    if station_losses:
        return "warn", f"No sample was lost; weigh stations have given something up {station_losses:,} times."
    if since is None:
        return "good", "Nothing was lost: no device has sent anything yet."
    return "good", f"No loss recorded since {since:%Y-%m-%d %H:%M} UTC ({duration((now - since).total_seconds())})."


def _of_node(edge: Loss | None, cloud: Loss | None) -> Entry:
    loss = edge or cloud
    if loss is None:
        raise ValueError("a loss that neither tier has")
    return Entry(
        event_id=loss.event_id,
        kind="node",
        device_id=loss.device_id,
        declared_at=loss.dropped_at,
        reason=loss.reason,
        cause=cause_of_node(loss.reason),
        count=loss.count,
        stream_id=loss.stream_id,
        first_seq=loss.first_seq,
        last_seq=loss.last_seq,
        first_at=loss.first_ts,
        last_at=loss.last_ts,
        at_edge=edge.recorded_at if edge else None,
        in_cloud=cloud.recorded_at if cloud else None,
    )


def _of_station(event: StationLoss) -> Entry:
    try:
        payload = msgspec.json.decode(event.payload, type=StationLossPayload)
    except msgspec.DecodeError:
        payload = StationLossPayload(reason=UNREADABLE, is_count_exact=False)
    return Entry(
        event_id=event.event_id,
        kind="station",
        device_id=event.device_id or "",
        declared_at=event.occurred_at,
        reason=payload.reason[:REASON_CHARS_MAX],
        cause=cause_of_station(payload.reason[:REASON_CHARS_MAX]),
        count=payload.count,
        is_count_exact=payload.is_count_exact,
        pictures=payload.pictures,
        first_at=payload.first_ts,
        last_at=payload.last_ts,
        in_cloud=event.received_at,
    )

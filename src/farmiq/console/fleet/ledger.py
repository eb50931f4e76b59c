"""The ledger of losses as one list: what nodes and weigh stations gave up, and which tiers have written it down."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from farmiq.console.fleet.answers import Loss, Losses, LossSummary, StationLoss, StationLosses
from farmiq.console.fleet.causes import cause_of_node, cause_of_station
from farmiq.console.wording import duration
from farmiq.contracts.ids import ID_PATTERN
from farmiq.contracts.timestamps import EARLIEST, to_utc
from farmiq.kit.http_server import ApiError
from farmiq.timeseries.paging import cursor

REASON_CHARS_MAX: Final = 120
STATIONS: Final = "of stations"
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
    """`lost_at_stations` are events and pictures."""

    at: datetime
    records: int = 0
    samples: int = 0
    lost_at_stations: int = 0


class Ledgers(Struct, frozen=True):
    """The ledgers of streams and of stations at both tiers. None: that one could not be asked."""

    edge: Losses | None
    cloud: Losses | None
    edge_stations: StationLosses | None
    cloud_stations: StationLosses | None


def entries_of(told: Ledgers) -> list[Entry]:
    """Newest first, each once."""
    here, there = ({loss.event_id: loss for loss in tier.losses} if tier else {} for tier in (told.edge, told.cloud))
    stations = (told.edge_stations, told.cloud_stations)
    here_too, there_too = ({loss.event_id: loss for loss in tier.losses} if tier else {} for tier in stations)
    found = [_of_node(here.get(name), there.get(name)) for name in {**here, **there}]
    found += [_of_station(here_too.get(name), there_too.get(name)) for name in {**here_too, **there_too}]
    return sorted(found, key=lambda entry: (entry.declared_at, entry.event_id), reverse=True)


def next_page(entries: Sequence[Entry], limit: int) -> str | None:
    """Where the next page begins, if there is one: the same words for both tiers, which keep the ledger in one order."""
    if len(entries) <= limit:
        return None
    last = entries[limit - 1]
    return cursor((last.declared_at, last.event_id))


def months_of(edge: LossSummary | None, cloud: LossSummary | None) -> list[Month]:
    """Newest first, all causes together. What one tier has not been told yet, the other one knows: of each cause and month the
    larger of both counts."""
    records: dict[tuple[datetime, str], int] = {}
    samples: dict[tuple[datetime, str], int] = {}
    at_stations: dict[datetime, int] = {}
    for summary in (edge, cloud):
        for one in summary.sums if summary else []:
            key = (one.month_at, one.reason)
            records[key] = max(records.get(key, 0), one.records)
            samples[key] = max(samples.get(key, 0), one.samples)
        for told in summary.stations.sums if summary else []:
            key = (told.month_at, STATIONS)
            records[key] = max(records.get(key, 0), told.records)
            at_stations[told.month_at] = max(at_stations.get(told.month_at, 0), told.lost)
    months = sorted({at for at, _ in records}, reverse=True)
    return [
        Month(
            at,
            sum(number for (month, _), number in records.items() if month == at),
            sum(number for (month, _), number in samples.items() if month == at),
            at_stations.get(at, 0),
        )
        for at in months
    ]


def ledger_sentence(edge: LossSummary | None, cloud: LossSummary | None, now: datetime) -> tuple[str, str]:
    """Kind and words, from the same figures as the months."""
    known = [summary for summary in (edge, cloud) if summary is not None]
    if not known:
        return "warn", "Whether anything was lost is not known just now."
    months = months_of(edge, cloud)
    records = sum(month.records for month in months)
    if records:
        samples, at_stations = sum(month.samples for month in months), sum(month.lost_at_stations for month in months)
        ended = [at for summary in known for at in (summary.last_at, summary.stations.last_at) if at is not None]
        parts = [f"{samples:,} samples"] if samples or not at_stations else []
        parts += [f"{at_stations:,} events and pictures of weigh stations"] if at_stations else []
        ago = f"; the last one {duration((now - max(ended)).total_seconds())} ago" if ended else ""
        less = samples - max(summary.samples_lost for summary in known)
        after_all = f" {less:,} of these samples came after all, or were declared twice." if less > 0 else ""
        return (
            "warn",
            f"{' and '.join(parts)} were given up in {records:,} {'loss' if records == 1 else 'losses'}{ago}.{after_all}",
        )
    since = min((summary.since for summary in known if summary.since is not None), default=None)
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


def _of_station(edge: StationLoss | None, cloud: StationLoss | None) -> Entry:
    loss = edge or cloud
    if loss is None:
        raise ValueError("a loss that neither tier has")
    reason = loss.reason[:REASON_CHARS_MAX]
    return Entry(
        event_id=loss.event_id,
        kind="station",
        device_id=loss.device_id,
        declared_at=loss.dropped_at,
        reason=reason,
        cause=cause_of_station(reason),
        count=loss.count,
        is_count_exact=loss.is_count_exact,
        pictures=loss.pictures,
        first_at=loss.first_ts,
        last_at=loss.last_ts,
        at_edge=edge.recorded_at if edge else None,
        in_cloud=cloud.recorded_at if cloud else None,
    )

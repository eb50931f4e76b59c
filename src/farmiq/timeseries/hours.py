"""Hour by hour, or day by day: what of a device's samples is here, what is declared lost, and what is missing.

What is here is counted by the aggregates. What is not here has no time of its own: a range of lost or missing sequences lies
between two times, and is shared out over the hours between them. What lies between unknown times is told apart, as undated.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries import completeness
from farmiq.timeseries.aggregates import start_of_bucket
from farmiq.timeseries.coverage import Span, count, without
from farmiq.timeseries.store import spans_of

HOUR: Final = timedelta(hours=1)
Step = Literal["1h", "1d"]
STEPS: Final[Mapping[Step, timedelta]] = {"1h": HOUR, "1d": timedelta(days=1)}

_STORED: Final = """
    SELECT device_id, bucket_start_at, sum(count)::bigint AS samples
      FROM telemetry_agg
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND "window" = $7
       AND bucket_start_at >= $3 AND bucket_start_at < $4 AND ($5::text IS NULL OR (farm_id, barn_id) = ($5, $6::text))
     GROUP BY device_id, bucket_start_at
"""
_LOST: Final = """
    SELECT stream_id, lost FROM streams WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND lost <> '{}'
"""
# Nothing is dropped before it was measured, so what was dropped before the range began is about earlier hours.
_LOSSES: Final = """
    SELECT stream_id, first_seq, last_seq, coalesce(first_ts, last_ts, dropped_at) AS first_at,
           coalesce(last_ts, first_ts, dropped_at) AS last_at
      FROM stream_losses
     WHERE tenant_id = $1 AND device_id = ANY ($2::text[]) AND dropped_at >= $3
     ORDER BY stream_id, first_seq, event_id
"""
_DEVICES: Final = """
    WITH RECURSIVE measured (device_id) AS (
      (SELECT device_id FROM telemetry_agg WHERE tenant_id = $1 AND device_id > $2 ORDER BY device_id LIMIT 1)
      UNION ALL
      SELECT (SELECT later.device_id FROM telemetry_agg AS later
               WHERE later.tenant_id = $1 AND later.device_id > measured.device_id ORDER BY later.device_id LIMIT 1)
        FROM measured WHERE measured.device_id IS NOT NULL)
    (SELECT device_id FROM measured WHERE device_id IS NOT NULL LIMIT $3)
    UNION
    (SELECT DISTINCT device_id FROM streams WHERE tenant_id = $1 AND device_id > $2 ORDER BY device_id LIMIT $3)
    ORDER BY device_id LIMIT $3
"""


class HourRow(msgspec.Struct):
    """`hour_at` is the beginning of the hour, or of the day in UTC when days were asked for."""

    device_id: str
    hour_at: datetime
    stored: int = 0
    lost: int = 0
    missing: int = 0


class Undated(msgspec.Struct):
    """Missing between unknown times."""

    device_id: str
    missing: int = 0


class Hours(msgspec.Struct, frozen=True):
    hours: list[HourRow]
    undated: list[Undated]


async def devices(connection: Connection, *, tenant_id: str, after: str = "", limit: int) -> list[str]:
    """Those that have measured, or lost, anything, in the order of their names."""
    return [row["device_id"] for row in await connection.fetch(_DEVICES, tenant_id, after, limit)]


async def hours(
    connection: Connection,
    *,
    tenant_id: str,
    device_ids: Sequence[str],
    since: datetime,
    until: datetime,
    barn: tuple[str, str] | None = None,
    step: Step = "1h",
) -> Hours:
    """Every hour (or day) of the range in which something is, or should be. With a barn, which is a farm and its barn:
    what was measured there."""
    since = start_of_bucket(since, step)
    place = barn or (None, None)
    found = _Found(since, until, step)
    for row in await connection.fetch(_STORED, tenant_id, list(device_ids), since, until, *place, step):
        found.at(row["device_id"], row["bucket_start_at"]).stored += row["samples"]
    filled = await completeness.filled_streams(connection, tenant_id=tenant_id, device_ids=device_ids)
    streams = {stream: spans for stream, spans in filled.items() if barn in (None, (stream.farm_id, stream.barn_id))}
    device_of = {stream.stream_id: stream.device_id for stream in streams}
    lost = {
        row["stream_id"]: spans_of(row["lost"]) for row in await connection.fetch(_LOST, tenant_id, list(device_ids))
    }
    for loss in await connection.fetch(_LOSSES, tenant_id, list(device_ids), since):
        stream_id = loss["stream_id"]
        if stream_id in lost and stream_id in device_of:
            lost[stream_id], taken = _take(lost[stream_id], (loss["first_seq"], loss["last_seq"] + 1))
            found.lose(device_of[stream_id], taken, loss["first_at"], loss["last_at"])
    gaps = await completeness.first_gaps(connection, tenant_id=tenant_id, streams=streams)
    for stream in streams:
        dated = gaps.get(stream.stream_id, [])
        for gap in dated:
            found.miss(stream.device_id, gap.count, gap.after_ts, gap.before_ts)
        found.miss(stream.device_id, stream.missing - sum(gap.count for gap in dated), None, None)
    return found.sorted()


class _Found:
    def __init__(self, since: datetime, until: datetime, step: Step) -> None:
        self._since = since
        self._until = until
        self._step: Step = step
        self._hours: dict[tuple[str, datetime], HourRow] = {}
        self._undated: dict[str, Undated] = {}

    def at(self, device_id: str, hour_at: datetime) -> HourRow:
        return self._hours.setdefault((device_id, hour_at), HourRow(device_id, hour_at))

    def lose(self, device_id: str, samples: int, first_at: datetime, last_at: datetime) -> None:
        for hour_at, share in shared_out(samples, first_at, last_at, self._since, self._until, self._step):
            self.at(device_id, hour_at).lost += share

    def miss(self, device_id: str, samples: int, after_at: datetime | None, before_at: datetime | None) -> None:
        first_at, last_at = after_at or before_at, before_at or after_at
        if first_at is None or last_at is None:
            if samples:
                self._undated.setdefault(device_id, Undated(device_id)).missing += samples
            return
        for hour_at, share in shared_out(samples, first_at, last_at, self._since, self._until, self._step):
            self.at(device_id, hour_at).missing += share

    def sorted(self) -> Hours:
        return Hours(
            [self._hours[key] for key in sorted(self._hours)], [self._undated[key] for key in sorted(self._undated)]
        )


def shared_out(
    samples: int, first_at: datetime, last_at: datetime, since: datetime, until: datetime, step: Step = "1h"
) -> Iterator[tuple[datetime, int]]:
    """The hours (or days) between `since` and `until` with their part of what lies evenly between the two; no empty ones."""
    if first_at > last_at:
        first_at, last_at = last_at, first_at
    hour_at = start_of_bucket(max(first_at, since), step)
    while hour_at < until and hour_at <= last_at:
        end_at = hour_at + STEPS[step]
        share = _before(samples, first_at, last_at, end_at) - _before(samples, first_at, last_at, hour_at)
        if share:
            yield hour_at, share
        hour_at = end_at


def _before(samples: int, first_at: datetime, last_at: datetime, moment: datetime) -> int:
    """How many lie before that moment. Differences of these add up, however they are rounded."""
    if moment <= first_at:
        return 0
    if moment > last_at:
        return samples
    return round(samples * ((moment - first_at) / (last_at - first_at)))


def _take(spans: Sequence[Span], wanted: Span) -> tuple[list[Span], int]:
    """What is left of the spans without `wanted`, and how many were in it."""
    remaining = without(spans, [wanted])
    return remaining, count(spans) - count(remaining)

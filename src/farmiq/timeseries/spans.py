"""Beside a chart of one device: between which times its samples were declared lost, are missing, or came late."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from farmiq.kit.postgres import Connection
from farmiq.timeseries import completeness

PROBES: Final = 500
"""In so many parts of a range it is looked for what came late. What is shorter than one is narrower than a line of the chart."""
LOSSES_MAX: Final = 1000

# Nothing is dropped before it was measured, so what was dropped before the range began is about earlier times.
_LOSSES: Final = """
    SELECT coalesce(first_ts, last_ts, dropped_at) AS first_at, coalesce(last_ts, first_ts, dropped_at) AS last_at,
           count AS samples, reason
      FROM stream_losses
     WHERE tenant_id = $1 AND device_id = $2 AND dropped_at >= $3
       AND coalesce(first_ts, last_ts, dropped_at) < $4 AND coalesce(last_ts, first_ts, dropped_at) >= $3
     ORDER BY 1, event_id
     LIMIT $5
"""
# One step down the index for each part of the range, however many samples there are.
_FIRST_OF_EACH_PART: Final = """
    SELECT part.number::int AS number, sample.occurred_at, sample.ingested_at
      FROM generate_series(0, $5::int - 1) AS part (number)
      CROSS JOIN LATERAL (
        SELECT occurred_at, ingested_at FROM telemetry_raw
         WHERE tenant_id = $1 AND device_id = $2
           AND occurred_at >= $3::timestamptz + part.number * $4::interval
           AND occurred_at < $3::timestamptz + (part.number + 1) * $4::interval
         ORDER BY occurred_at LIMIT 1
      ) AS sample
     WHERE sample.ingested_at - sample.occurred_at > $6::interval
     ORDER BY part.number
"""


class LossSpan(msgspec.Struct, frozen=True):
    first_at: datetime
    last_at: datetime
    samples: int
    reason: str


class GapSpan(msgspec.Struct, frozen=True):
    """Between the samples on either side. Where only one of them is stored, both times are of that one."""

    first_at: datetime
    last_at: datetime
    samples: int


class LateSpan(msgspec.Struct, frozen=True):
    """Samples of this time came up to so many seconds after they were taken."""

    first_at: datetime
    last_at: datetime
    delay_seconds: float


class Spans(msgspec.Struct, frozen=True):
    """`undated` samples are missing too, and nobody knows of what time."""

    lost: list[LossSpan]
    missing: list[GapSpan]
    late: list[LateSpan]
    undated: int


async def spans(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str,
    since: datetime,
    until: datetime,
    late_after: timedelta,
) -> Spans:
    rows = await connection.fetch(_LOSSES, tenant_id, device_id, since, until, LOSSES_MAX)
    gaps, missing = await _gaps(connection, tenant_id, device_id)
    part = (until - since) / PROBES
    late = await late_parts(connection, tenant_id, device_id, since, part, late_after)
    return Spans(
        [LossSpan(**row) for row in rows],
        missing_between(gaps, since, until),
        late_between(late, since, part),
        missing - sum(gap.count for gap in gaps),
    )


async def late_parts(
    connection: Connection, tenant_id: str, device_id: str, since: datetime, part: timedelta, late_after: timedelta
) -> list[tuple[int, timedelta]]:
    """Which parts of a range begin with a sample that came late, and how late."""
    rows = await connection.fetch(_FIRST_OF_EACH_PART, tenant_id, device_id, since, part, PROBES, late_after)
    return [(row["number"], row["ingested_at"] - row["occurred_at"]) for row in rows]


async def _gaps(connection: Connection, tenant_id: str, device_id: str) -> tuple[list[completeness.Gap], int]:
    """Those of which a time is known, and how many samples are missing in all."""
    streams = await completeness.filled_streams(connection, tenant_id=tenant_id, device_ids=[device_id])
    gaps = await completeness.first_gaps(connection, tenant_id=tenant_id, streams=streams)
    dated = [gap for of_stream in gaps.values() for gap in of_stream if gap.after_ts or gap.before_ts]
    return dated, sum(stream.missing for stream in streams)


def missing_between(gaps: Iterable[completeness.Gap], since: datetime, until: datetime) -> list[GapSpan]:
    """Those that lie at least partly in the range. A gap at the end of a stream's stored part is known by one time only."""
    shown = []
    for gap in gaps:
        first_at, last_at = gap.after_ts or gap.before_ts, gap.before_ts or gap.after_ts
        if first_at is not None and last_at is not None and first_at < until and last_at >= since:
            shown.append(GapSpan(min(first_at, last_at), max(first_at, last_at), gap.count))
    return sorted(shown, key=lambda span: span.first_at)


def late_between(late: Sequence[tuple[int, timedelta]], since: datetime, part: timedelta) -> list[LateSpan]:
    """Parts of the range beside each other, as one."""
    runs: list[list[tuple[int, timedelta]]] = []
    for number, delay in late:
        if runs and runs[-1][-1][0] == number - 1:
            runs[-1].append((number, delay))
        else:
            runs.append([(number, delay)])
    return [
        LateSpan(
            since + run[0][0] * part,
            since + (run[-1][0] + 1) * part,
            round(max(delay for _, delay in run).total_seconds(), 3),
        )
        for run in runs
    ]

"""What of a stream is here, what is declared lost, and what is missing."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from farmiq.kit.ids import first_sample_id, sample_id
from farmiq.kit.postgres import Connection
from farmiq.timeseries.coverage import Span, contiguous_to, count, missing, normalise
from farmiq.timeseries.paging import AfterLoss, AfterStream
from farmiq.timeseries.store import spans_of

_COLUMNS = "stream_id, farm_id, barn_id, device_id, received, lost, first_seen_at, last_seen_at"
_STREAMS = f"""
    SELECT {_COLUMNS} FROM streams
     WHERE tenant_id = $1 AND (device_id, stream_id) > ($2, $3)
     ORDER BY device_id, stream_id
     LIMIT $4
"""  # noqa: S608 - our own constants
_STREAMS_OF_DEVICE = _STREAMS.replace("ORDER BY", "AND device_id = $5\n     ORDER BY")
_STREAMS_OF_DEVICES = f"""
    SELECT {_COLUMNS} FROM streams
     WHERE tenant_id = $1 AND device_id = ANY ($2)
     ORDER BY device_id, stream_id
"""  # noqa: S608 - as above
_STREAM = f"SELECT {_COLUMNS} FROM streams WHERE tenant_id = $1 AND stream_id = $2"  # noqa: S608 - as above
# A sample's id follows from its sequence, so its row is found by the key of each partition. Rows of 0.1.0 have another one.
_TIMES = "SELECT stream_id, seq, occurred_at FROM telemetry_raw WHERE tenant_id = $1 AND id = ANY ($2::uuid[])"
_LOSSES = """
    SELECT event_id, first_seq, last_seq, count, first_ts, last_ts, reason, dropped_at, recorded_at
      FROM stream_losses
     WHERE tenant_id = $1 AND stream_id = $2 AND (first_seq, event_id) > ($3, $4)
     ORDER BY first_seq, event_id
     LIMIT $5
"""

SMALLEST_ID = UUID(int=0)
GAPS_OF_STREAM_MAX = 500
GAPS_OF_DEVICE_MAX = 2000
"""Gaps whose times are looked up when a whole device is shown. The others are counted, and have no time."""


class StreamRow(msgspec.Struct, frozen=True):
    """`missing` counts the gaps below the highest sequence seen: neither stored nor declared lost."""

    stream_id: UUID
    farm_id: str
    barn_id: str
    device_id: str
    contiguous_seq: int
    highest_seq: int
    stored: int
    lost: int
    missing: int
    first_seen_at: datetime
    last_seen_at: datetime


class Gap(msgspec.Struct, frozen=True):
    """Sequences from `first_seq` to `last_seq`, measured between these two times where its neighbours are stored."""

    first_seq: int
    last_seq: int
    count: int
    after_ts: datetime | None
    before_ts: datetime | None


class LossRow(msgspec.Struct, frozen=True):
    event_id: UUID
    first_seq: int
    last_seq: int
    count: int
    first_ts: datetime | None
    last_ts: datetime | None
    reason: str
    dropped_at: datetime
    recorded_at: datetime


async def streams(
    connection: Connection,
    *,
    tenant_id: str,
    device_id: str | None = None,
    after: AfterStream | None = None,
    limit: int,
) -> list[StreamRow]:
    position = after or AfterStream("", SMALLEST_ID)
    if device_id is None:
        rows = await connection.fetch(_STREAMS, tenant_id, *position, limit)
    else:
        rows = await connection.fetch(_STREAMS_OF_DEVICE, tenant_id, *position, limit, device_id)
    return [_stream_row(dict(row))[0] for row in rows]


async def streams_of(connection: Connection, *, tenant_id: str, device_ids: Sequence[str]) -> list[StreamRow]:
    return list(await filled_streams(connection, tenant_id=tenant_id, device_ids=device_ids))


async def filled_streams(
    connection: Connection, *, tenant_id: str, device_ids: Sequence[str]
) -> dict[StreamRow, list[Span]]:
    """The streams of these devices, each with what is stored or declared lost of it."""
    rows = await connection.fetch(_STREAMS_OF_DEVICES, tenant_id, list(device_ids))
    return dict(_stream_row(dict(row)) for row in rows)


async def gaps(
    connection: Connection, *, tenant_id: str, stream_id: UUID, after_seq: int = 0, limit: int
) -> tuple[StreamRow, list[Gap]] | None:
    """The gaps above `after_seq`, in order. None for a stream that this tenant does not have."""
    row = await connection.fetchrow(_STREAM, tenant_id, stream_id)
    if row is None:
        return None
    stream, filled = _stream_row(dict(row))
    open_spans = {stream_id: _open_spans(stream, filled, after_seq, limit)}
    return stream, (await _dated(connection, tenant_id, open_spans))[stream_id]


async def first_gaps(
    connection: Connection, *, tenant_id: str, streams: Mapping[StreamRow, Sequence[Span]]
) -> dict[UUID, list[Gap]]:
    """The first gaps of each stream, with their times, in one statement however many streams a device has.

    At most `GAPS_OF_DEVICE_MAX` of one device. The streams with the most samples come first: a device that opens streams without
    end does not hide the gaps of those with which it measures.
    """
    left = dict.fromkeys((stream.device_id for stream in streams), GAPS_OF_DEVICE_MAX)
    open_spans: dict[UUID, list[Span]] = {}
    torn = sorted((stream for stream in streams if stream.missing), key=lambda stream: -stream.stored)
    for stream in torn:
        limit = min(GAPS_OF_STREAM_MAX, left[stream.device_id])
        open_spans[stream.stream_id] = _open_spans(stream, streams[stream], 0, limit)
        left[stream.device_id] -= len(open_spans[stream.stream_id])
    return await _dated(connection, tenant_id, open_spans)


def _open_spans(stream: StreamRow, filled: Sequence[Span], after_seq: int, limit: int) -> list[Span]:
    return [span for span in missing(filled, (1, stream.highest_seq + 1)) if span[0] > after_seq][:limit]


async def losses(
    connection: Connection, *, tenant_id: str, stream_id: UUID, after: AfterLoss | None = None, limit: int
) -> list[LossRow]:
    """The ledger of one stream, in the order of the sequences."""
    position = after or AfterLoss(0, SMALLEST_ID)
    return [LossRow(**row) for row in await connection.fetch(_LOSSES, tenant_id, stream_id, *position, limit)]


async def has_stream(connection: Connection, *, tenant_id: str, stream_id: UUID) -> bool:
    return await connection.fetchrow(_STREAM, tenant_id, stream_id) is not None


async def _dated(
    connection: Connection, tenant_id: str, open_spans: Mapping[UUID, Sequence[Span]]
) -> dict[UUID, list[Gap]]:
    neighbours = {
        (stream_id, seq)
        for stream_id, spans in open_spans.items()
        for first, end in spans
        for seq in (first - 1, end)
        if seq > 0
    }
    ids = [
        name(stream_id, seq)
        for stream_id, seq in sorted(neighbours)
        for name in (partial(sample_id, tenant_id), first_sample_id)
    ]
    rows = await connection.fetch(_TIMES, tenant_id, ids) if ids else []
    times = {(row["stream_id"], row["seq"]): row["occurred_at"] for row in rows}
    return {
        stream_id: [
            Gap(first, end - 1, end - first, times.get((stream_id, first - 1)), times.get((stream_id, end)))
            for first, end in spans
        ]
        for stream_id, spans in open_spans.items()
    }


def _stream_row(row: dict[str, Any]) -> tuple[StreamRow, list[Span]]:
    received, lost = spans_of(row.pop("received")), spans_of(row.pop("lost"))
    filled = normalise([*received, *lost])
    highest = filled[-1][1] - 1 if filled else 0
    stream = StreamRow(
        **row,
        contiguous_seq=contiguous_to(filled),
        highest_seq=highest,
        stored=count(received),
        lost=count(lost),
        missing=highest - count(filled),
    )
    return stream, filled

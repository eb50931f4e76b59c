"""What of a stream's content this tier can answer for: digests of its blocks, and the samples of a few of them.

A block is complete when as many samples have a part in its digest as coverage says were received. Those that 0.1.0 stored have
none: their blocks stay as they are, and `count_rows` makes their digest of the rows.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from farmiq.contracts.limits import SEQ_LIMIT
from farmiq.contracts.telemetry import Channel, Count
from farmiq.contracts.timestamps import to_us
from farmiq.kit.ids import first_sample_id, sample_id
from farmiq.kit.postgres import Connection
from farmiq.timeseries.content import BLOCK_BITS, DIGEST_MASK, BlockContent, SampleRows, content_of_rows
from farmiq.timeseries.coverage import Span, count, runs_of, shared
from farmiq.timeseries.store import spans_of

MERGED_BITS_MAX: Final = 12
"""So many blocks, as a power of two, can be one: 16.8 million sequences."""

_STREAMS: Final = """
    SELECT stream_id, device_id, received FROM streams
     WHERE tenant_id = $1 AND stream_id >= $2 AND NOT isempty(received)
       AND ($3::text[] IS NULL OR device_id = ANY ($3)) AND ($4::uuid IS NULL OR stream_id = $4)
     ORDER BY stream_id
     LIMIT $5
"""
# Sums of numbers below 2^62 do not fit a bigint; PostgreSQL adds them up as numeric.
_DIGESTS: Final = f"""
    SELECT stream_id, block >> $6::int AS number, sum(samples)::bigint AS samples,
           (sum(digest) % {DIGEST_MASK + 1})::bigint AS digest
      FROM stream_content
     WHERE tenant_id = $1 AND stream_id = ANY ($7::uuid[])
       AND (stream_id, block) >= ($2, $3) AND (stream_id, block) < ($4, $5)
     GROUP BY stream_id, number
"""  # noqa: S608 - our own constants
# A sample's id follows from its sequence, and those of a block are neighbours. Rows of 0.1.0 have ids of another kind. OFFSET
# keeps the two ranges apart: joined to the table they look like a reason to read all of it.
_ROWS: Final = """
    SELECT DISTINCT ON (seq) seq, occurred_at, coalesce(device_occurred_at, occurred_at) AS device_at, metric_type,
           coalesce(unit, '') AS unit, sensor, metric_value
      FROM unnest($3::uuid[], $4::uuid[]) AS ids (first, last)
      CROSS JOIN LATERAL (
        SELECT * FROM telemetry_raw
         WHERE tenant_id = $1 AND id BETWEEN first AND last AND stream_id = $2 AND seq >= $5 AND seq < $6
        OFFSET 0) AS row
     ORDER BY seq
"""


class AfterBlock(NamedTuple):
    """The first block that was not shown."""

    stream_id: UUID
    number: Count


class ContentRow(msgspec.Struct, frozen=True):
    """Sequences from `first_seq` on and before `end_seq`. `received` of them are covered here and `samples` have a part in
    `digest`; it says everything when these two are the same. `rows` and `rows_digest` are of the rows, where these were read."""

    stream_id: UUID
    device_id: str
    first_seq: int
    end_seq: int
    received: int
    samples: int
    digest: str
    rows: int | None = None
    rows_digest: str | None = None


class _Piece(NamedTuple):
    stream_id: UUID
    device_id: str
    number: int
    received: list[Span]


async def contents(
    connection: Connection,
    *,
    tenant_id: str,
    device_ids: Sequence[str] | None,
    stream_id: UUID | None,
    begin: AfterBlock,
    end_seq: int,
    merged_bits: int,
    with_rows: bool,
    limit: int,
) -> tuple[list[ContentRow], AfterBlock | None]:
    """From `begin` on, in order, and where the next page begins. Of each stream up to `end_seq`.

    All queries have to be as of one moment, which `read_as` gives them."""
    bits = BLOCK_BITS + merged_bits
    streams = await connection.fetch(_STREAMS, tenant_id, begin.stream_id, device_ids, stream_id, limit + 1)
    pieces: list[_Piece] = []
    for row in streams:
        first_seq = begin.number << bits if row["stream_id"] == begin.stream_id else 0
        wanted = shared(spans_of(row["received"]), [(first_seq, end_seq)])
        for number, spans in _by_block(wanted, bits):
            pieces.append(_Piece(row["stream_id"], row["device_id"], number, spans))
            if len(pieces) > limit:
                break
        if len(pieces) > limit:
            break
    shown, later = pieces[:limit], pieces[limit:]
    after = AfterBlock(later[0].stream_id, later[0].number) if later else None
    if after is None and len(streams) > limit:
        after = AfterBlock(streams[-1]["stream_id"], 0)
    kept = await _digests(connection, tenant_id, shown, merged_bits)
    rows = [await _counted(connection, tenant_id, piece) if with_rows and not merged_bits else None for piece in shown]
    nothing = BlockContent(0, 0)
    found = [
        _row(piece, kept.get((piece.stream_id, piece.number), nothing), counted, bits)
        for piece, counted in zip(shown, rows, strict=True)
    ]
    return found, after


async def samples(connection: Connection, *, tenant_id: str, stream_id: UUID, span: Span) -> SampleRows:
    """As they are stored, of sequences of one block, in their order. Of a sequence that is stored twice, the first."""
    first, end = span
    bounds = [
        (sample_id(tenant_id, stream_id, first), sample_id(tenant_id, stream_id, end - 1)),
        *_first_ids(stream_id, span),
    ]
    rows = await connection.fetch(
        _ROWS, tenant_id, stream_id, [low for low, _ in bounds], [high for _, high in bounds], first, end
    )
    numbers: dict[Channel, int] = {}
    channels = [Channel(metric=row["metric_type"], unit=row["unit"], sensor=row["sensor"]) for row in rows]
    device_us = [to_us(row["device_at"]) for row in rows]
    occurred_us = [to_us(row["occurred_at"]) for row in rows]
    return SampleRows(
        seq=[row["seq"] for row in rows],
        t=device_us,
        c=[numbers.setdefault(channel, len(numbers)) for channel in channels],
        v=[row["metric_value"] for row in rows],
        channels=list(numbers),
        occurred_us=UNSET if occurred_us == device_us else occurred_us,
    )


def _first_ids(stream_id: UUID, span: Span) -> list[tuple[UUID, UUID]]:
    """Of 0.1.0, whose ids count on within their lower half and begin there anew."""
    low, high = first_sample_id(stream_id, span[0]), first_sample_id(stream_id, span[1] - 1)
    if low <= high:
        return [(low, high)]
    half = (1 << 64) - 1
    return [(low, UUID(int=low.int | half)), (UUID(int=high.int & ~half), high)]


def _by_block(spans: Sequence[Span], bits: int) -> Iterator[tuple[int, list[Span]]]:
    runs = (run for span in spans for run in runs_of(span, bits))
    for number, found in groupby(runs, lambda run: run[0] >> bits):
        yield number, list(found)


async def _digests(
    connection: Connection, tenant_id: str, pieces: Sequence[_Piece], merged_bits: int
) -> dict[tuple[UUID, int], BlockContent]:
    if not pieces:
        return {}
    first, last = pieces[0], pieces[-1]
    rows = await connection.fetch(
        _DIGESTS,
        tenant_id,
        first.stream_id,
        first.number << merged_bits,
        last.stream_id,
        last.number + 1 << merged_bits,
        merged_bits,
        sorted({piece.stream_id for piece in pieces}),
    )
    return {(row["stream_id"], row["number"]): BlockContent(row["samples"], row["digest"]) for row in rows}


async def _counted(connection: Connection, tenant_id: str, piece: _Piece) -> BlockContent:
    block = (piece.number << BLOCK_BITS, piece.number + 1 << BLOCK_BITS)
    stored = await samples(connection, tenant_id=tenant_id, stream_id=piece.stream_id, span=_storable(block))
    return content_of_rows(stored)


def _storable(span: Span) -> Span:
    return max(span[0], 1), min(span[1], SEQ_LIMIT)


def _row(piece: _Piece, kept: BlockContent, rows: BlockContent | None, bits: int) -> ContentRow:
    return ContentRow(
        stream_id=piece.stream_id,
        device_id=piece.device_id,
        first_seq=piece.number << bits,
        end_seq=piece.number + 1 << bits,
        received=count(piece.received),
        samples=kept.samples,
        digest=f"{kept.digest:016x}",
        rows=None if rows is None else rows.samples,
        rows_digest=None if rows is None else f"{rows.digest:016x}",
    )

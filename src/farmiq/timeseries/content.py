"""What samples say, added up: a digest of each block of 4,096 sequences, the same however the samples were cut into batches.

A sample's hash mixes its sequence, channel, time and value one after another, each with all of what came before, so that a value
in another place is another hash. The digest of a block is the sum of its samples' hashes modulo 2^62: sums do not depend on the
order, the digests of neighbouring blocks add up to that of both, and two of them still fit a `bigint`.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from farmiq.contracts.telemetry import Channel
from farmiq.timeseries.coverage import Span, runs_of
from farmiq.timeseries.samples import StreamBatch

BLOCK_BITS: Final = 12
DIGEST_BITS: Final = 62
DIGEST_MASK: Final = (1 << DIGEST_BITS) - 1

Numbers: TypeAlias = NDArray[np.uint64]

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS: Final = np.uint64(30), np.uint64(27), np.uint64(31)


class Block(NamedTuple):
    """Sequences `number << BLOCK_BITS` up to the next block, of one stream of a tenant."""

    tenant_id: str
    stream_id: UUID
    number: int


class BlockContent(NamedTuple):
    samples: int
    digest: int

    def added(self, other: "BlockContent") -> "BlockContent":
        return BlockContent(self.samples + other.samples, self.digest + other.digest & DIGEST_MASK)


class SampleRows(msgspec.Struct, frozen=True):
    """Some samples of one stream in columns, in the order of their sequences. `c` indexes `channels`. `t` is the time on the
    device's clock, of which digests are made; `occurred_us` the corrected one, where any of them was corrected."""

    channels: list[Channel]
    seq: list[int]
    t: list[int]
    c: list[int]
    v: list[float]
    occurred_us: list[int] | UnsetType = UNSET


def contents_of(parts: Iterable[tuple[StreamBatch, Span]]) -> dict[Block, BlockContent]:
    """Of the sequences in each span, by block. All of them in one calculation: the fixed costs do not grow with the batches."""
    blocks: list[Block] = []
    starts: list[int] = []
    firsts: list[int] = []
    tables: list[int] = []
    keys: list[int] = []
    channels: list[int] = []
    times: list[int] = []
    values: list[float] = []
    for item, span in parts:
        batch = item.batch
        table = len(keys)
        keys += map(_key_of, batch.channels)
        for first, end in runs_of(span, BLOCK_BITS):
            blocks.append(Block(*item.key, first >> BLOCK_BITS))
            starts.append(len(times))
            firsts.append(first)
            tables.append(table)
            run = slice(first - batch.seq0, end - batch.seq0)
            channels += batch.c[run]
            times += batch.t[run]
            values += batch.v[run]
    if not blocks:
        return {}
    lengths = np.diff(starts, append=len(times))
    sequences = np.arange(len(times)) + np.repeat(np.array(firsts) - np.array(starts), lengths)
    numbered = np.array(channels) + np.repeat(tables, lengths)
    hashes = _hashes(sequences, np.array(keys, np.uint64)[numbered], times, values)
    sums = np.add.reduceat(hashes, starts)
    found: dict[Block, BlockContent] = {}
    for block, samples, digest in zip(blocks, lengths.tolist(), sums.tolist(), strict=True):
        content = BlockContent(samples, digest & DIGEST_MASK)
        found[block] = found[block].added(content) if block in found else content
    return found


def content_of_rows(rows: SampleRows) -> BlockContent:
    """The same of samples as they are stored."""
    if not rows.seq:
        return BlockContent(0, 0)
    keys = np.array([_key_of(channel) for channel in rows.channels], np.uint64)
    hashes = _hashes(np.array(rows.seq), keys[np.array(rows.c)], rows.t, rows.v)
    return BlockContent(len(rows.seq), int(np.add.reduce(hashes)) & DIGEST_MASK)


def _hashes(sequences: NDArray[np.int64], keys: Numbers, times: Sequence[int], values: Sequence[float]) -> Numbers:
    hashes = sequences.astype(np.uint64)
    hashes *= _ODD
    hashes ^= keys
    _mix(hashes)
    hashes ^= np.array(times, np.int64).view(np.uint64)
    _mix(hashes)
    hashes ^= np.array(values, np.float64).view(np.uint64)
    _mix(hashes)
    return hashes


def _mix(numbers: Numbers) -> None:
    """Every bit comes to depend on every bit, and no two numbers become one. In place."""
    numbers ^= numbers >> _SHIFTS[0]
    numbers *= _FIRST
    numbers ^= numbers >> _SHIFTS[1]
    numbers *= _SECOND
    numbers ^= numbers >> _SHIFTS[2]


@lru_cache(maxsize=4096)
def _key_of(channel: Channel) -> int:
    """Metric, unit and sensor, whatever the channel's number in its batch."""
    return int.from_bytes(
        sha256(msgspec.json.encode([channel.metric, channel.unit, channel.sensor])).digest()[:8], "big"
    )

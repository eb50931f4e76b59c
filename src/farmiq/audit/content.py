"""What samples say at both tiers: digests of large runs of sequences first, of blocks where these differ, and rows at last.

Digests are of what a tier has stored, rows of what is in its tables now. Blocks that are not complete, because something is on
its way or 0.1.0 stored it, are compared by their rows as far as these are read. The rest is unknown, and never different.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct

from farmiq.console.neighbours import Neighbours, Refused
from farmiq.contracts.telemetry import Channel
from farmiq.contracts.timestamps import from_us
from farmiq.timeseries.accounts import DeviceAccount
from farmiq.timeseries.coverage import Span, count, normalise, shared

MERGED_BITS: Final = 8
"""The first digests are of so many blocks, as a power of two: a million sequences."""
A_PAGE: Final = 5000
BLOCKS_READ_MAX: Final = 64
OPEN_BLOCKS_READ_MAX: Final = 16
"""So many blocks that differ, and that are not complete, are read from both tiers in one audit."""
SPANS_NAMED_MAX: Final = 8


class BlockContent(Struct, frozen=True):
    """As `timeseries.content_blocks.ContentRow`."""

    stream_id: UUID
    device_id: str
    first_seq: int
    end_seq: int
    received: int
    samples: int
    digest: str
    rows: int | None = None
    rows_digest: str | None = None

    @property
    def known(self) -> str | None:
        """The digest of everything that was received, or None: not all of it has a part in one."""
        if self.samples == self.received:
            return self.digest
        return self.rows_digest if self.rows == self.received else None

    @property
    def has_changed(self) -> bool:
        """The rows are all there, and are not what was stored; or more is said to be stored than was received."""
        return self.samples > self.received or (
            self.samples == self.received == self.rows and self.rows_digest != self.digest
        )


class Samples(Struct, frozen=True):
    """As `timeseries.content.SampleRows`."""

    channels: list[Channel]
    seq: list[int]
    t: list[int]
    c: list[int]
    v: list[float]

    def by_seq(self) -> dict[int, tuple[Channel, int, str]]:
        """`repr` tells 0.0 from -0.0, and every other number from every other."""
        columns = zip(self.seq, self.c, self.t, self.v, strict=True)
        return {seq: (self.channels[number], at_us, repr(value)) for seq, number, at_us, value in columns}


class Difference(Struct, frozen=True):
    """Sequences of one stream that both tiers have, and not alike. `tier`: its rows are not what it has stored."""

    stream_id: UUID
    spans: list[Span]
    detail: str = ""
    tier: str | None = None

    @property
    def named(self) -> list[tuple[Span, int]]:
        """Each run with its number of samples; very many runs are one, from the first to the last."""
        if len(self.spans) > SPANS_NAMED_MAX:
            return [((self.spans[0][0], self.spans[-1][1]), count(self.spans))]
        return [(span, count([span])) for span in self.spans]


class DeviceContent(Struct, frozen=True):
    """Of the samples that both tiers have: how many are `alike`, and of how many it is `unknown`."""

    alike: int = 0
    unknown: int = 0
    differences: list[Difference] = []


class Tiers(NamedTuple):
    edge: str
    cloud: str


class _Pair(NamedTuple):
    edge: BlockContent
    cloud: BlockContent

    @property
    def span(self) -> Span:
        return self.edge.first_seq, self.edge.end_seq

    @property
    def has_digests(self) -> bool:
        """Not all of it was stored by 0.1.0."""
        return self.edge.samples > 0 and self.cloud.samples > 0

    @property
    def is_alike(self) -> bool:
        return self.is_comparable and self.edge.known == self.cloud.known

    @property
    def is_comparable(self) -> bool:
        return self.edge.received == self.cloud.received and None not in (self.edge.known, self.cloud.known)

    @property
    def changed(self) -> str | None:
        return "edge" if self.edge.has_changed else "cloud" if self.cloud.has_changed else None


class _NoContent(Exception):
    """A service of an earlier release, which has no digests."""


async def read_content(
    neighbours: Neighbours,
    tiers: Tiers,
    tenant_id: str,
    device_id: str | None,
    edge: Mapping[str, DeviceAccount],
    cloud: Mapping[str, DeviceAccount],
    *,
    is_deep: bool,
    notes: list[str],
) -> dict[str, DeviceContent]:
    """By device, of those that both tiers have."""
    covered = {name: _covered(edge[name], cloud[name]) for name in sorted({*edge} & {*cloud})}
    if not any(covered.values()):
        return {}
    reader = _Reader(neighbours, tiers, tenant_id, device_id)
    comparison = _Comparison(reader, covered)
    try:
        await comparison.run(is_deep=is_deep)
    except _NoContent as error:
        notes.append(f"{error} has no digests of content yet, so contents of {tenant_id} were not compared: update it.")
        comparison = _Comparison(reader, covered)
    if comparison.unread:
        notes.append(
            f"Of {comparison.unread:,} blocks that differ the samples were not read: at most {BLOCKS_READ_MAX} are."
        )
    return {name: comparison.of(name) for name in covered}


class _Reader:
    """Asking both tiers, the cloud first."""

    def __init__(self, neighbours: Neighbours, tiers: Tiers, tenant_id: str, device_id: str | None) -> None:
        self._neighbours = neighbours
        self._tiers = tiers
        self._tenant_id = tenant_id
        self._device_id = device_id

    async def pairs(self, **query: Any) -> list[_Pair]:
        """Blocks of which both tiers have something."""
        cloud = {(one.stream_id, one.first_seq): one async for one in self._blocks(self._tiers.cloud, query)}
        return [
            _Pair(one, cloud[one.stream_id, one.first_seq])
            async for one in self._blocks(self._tiers.edge, query)
            if (one.stream_id, one.first_seq) in cloud
        ]

    async def samples(self, stream_id: UUID, span: Span) -> tuple[Samples, Samples]:
        path = f"/api/v1/streams/{stream_id}/samples"
        query = {"tenant_id": self._tenant_id, "first_seq": span[0], "last_seq": span[1] - 1}
        cloud = await self._neighbours.get(self._tiers.cloud, path, Samples, **query)
        return await self._neighbours.get(self._tiers.edge, path, Samples, **query), cloud

    async def _blocks(self, service: str, query: Mapping[str, Any]) -> AsyncIterator[BlockContent]:
        after: str | None = None
        while True:
            try:
                page = await self._neighbours.get(
                    service, "/api/v1/content", _Page, tenant_id=self._tenant_id, device_ids=self._device_id, after=after,
                    limit=A_PAGE, **query,
                )  # fmt: skip
            except Refused as error:
                if error.status != 404:
                    raise
                raise _NoContent(service) from error
            for one in page.blocks:
                yield one
            after = page.next
            if after is None:
                return


class _Page(Struct, frozen=True):
    blocks: list[BlockContent]
    next: str | None = None


class _Comparison:
    """`covered`: by device and stream what both tiers have received, as they said before."""

    def __init__(self, reader: _Reader, covered: Mapping[str, Mapping[UUID, list[Span]]]) -> None:
        self._reader = reader
        self._covered = covered
        self._alike: dict[str, int] = {}
        self._differing: dict[tuple[str, UUID, str | None], list[tuple[Span, str]]] = {}
        self.unread = 0

    async def run(self, *, is_deep: bool) -> None:
        doubtful = [pair async for pair in self._blocks(is_deep=is_deep) if not self._is_settled(pair)]
        differing = [pair for pair in doubtful if self._differs(pair)]
        newest_open = sorted(
            (pair for pair in doubtful if not self._differs(pair)), key=lambda pair: pair.edge.first_seq, reverse=True
        )
        for pair in [*differing[:BLOCKS_READ_MAX], *newest_open[:OPEN_BLOCKS_READ_MAX]]:
            await self._read(pair)
        for pair in differing[BLOCKS_READ_MAX:]:
            self.unread += 1
            self._add(pair, [_storable(pair.span)], "")

    def of(self, device_id: str) -> DeviceContent:
        differences = [
            Difference(stream_id, normalise(span for span, _ in parts), parts[0][1], tier)
            for (name, stream_id, tier), parts in self._differing.items()
            if name == device_id
        ]
        alike = self._alike.get(device_id, 0)
        differing = sum(count(one.spans) for one in differences)
        covered = sum(map(count, self._covered[device_id].values()))
        return DeviceContent(alike, max(0, covered - alike - differing), differences)

    async def _blocks(self, *, is_deep: bool) -> AsyncIterator[_Pair]:
        if is_deep:
            for pair in await self._reader.pairs(rows="true"):
                yield pair
            return
        for large in await self._reader.pairs(merged_bits=MERGED_BITS):
            if large.is_alike:
                self._count(large)
                continue
            first, end = large.span
            if not large.has_digests:
                continue
            for pair in await self._reader.pairs(stream_id=large.edge.stream_id, first_seq=first, end_seq=end):
                if pair.has_digests:
                    yield pair

    def _is_settled(self, pair: _Pair) -> bool:
        if pair.edge.device_id not in self._covered:
            return True
        if pair.is_alike and pair.changed is None:
            self._count(pair)
            return True
        return False

    def _differs(self, pair: _Pair) -> bool:
        """Whether the tiers, or a tier's rows and its digest, differ for certain: not only because they have other sequences."""
        if pair.changed is not None:
            return True
        spans = shared(self._covered[pair.edge.device_id].get(pair.edge.stream_id, []), [pair.span])
        return pair.is_comparable and not pair.is_alike and count(spans) == pair.edge.received

    async def _read(self, pair: _Pair) -> None:
        edge, cloud = (one.by_seq() for one in await self._reader.samples(pair.edge.stream_id, _storable(pair.span)))
        both = {*edge} & {*cloud}
        differing = sorted(seq for seq in both if edge[seq] != cloud[seq])
        if differing:
            first, last = differing[0], differing[-1]
            times = f"from {_time(edge[first][1])} to {_time(edge[last][1])}"
            detail = (
                f"{times}; sequence {first:,}: {_words(*edge[first])} at the edge, {_words(*cloud[first])} in the cloud"
            )
            self._add(pair, normalise((seq, seq + 1) for seq in differing), detail)
        elif self._differs(pair):
            self._add(pair, [_storable(pair.span)], "the rows that are still there do not show which samples")
            return
        self._count(pair, len(both) - len(differing))

    def _add(self, pair: _Pair, spans: Collection[Span], detail: str) -> None:
        key = (pair.edge.device_id, pair.edge.stream_id, pair.changed)
        self._differing.setdefault(key, []).extend((span, detail) for span in spans)

    def _count(self, pair: _Pair, alike: int | None = None) -> None:
        name = pair.edge.device_id
        self._alike[name] = self._alike.get(name, 0) + (pair.edge.received if alike is None else alike)


def _covered(edge: DeviceAccount, cloud: DeviceAccount) -> dict[UUID, list[Span]]:
    there = {stream.stream_id: stream.received for stream in cloud.streams}
    return {
        stream.stream_id: shared(stream.received, there[stream.stream_id])
        for stream in edge.streams
        if stream.stream_id in there
    }


def _storable(span: Span) -> Span:
    return max(span[0], 1), span[1]


def _words(channel: Channel, at_us: int, value: str) -> str:
    sensor = f" of {channel.sensor}" if channel.sensor else ""
    return f"{channel.metric}{sensor} {value} {channel.unit}".rstrip() + f" at {_time(at_us)}"


def _time(at_us: int) -> str:
    at: datetime = from_us(at_us)
    return f"{at:%Y-%m-%d %H:%M:%S.%f} UTC"

"""Ranges of sequence numbers, half-open `[first, end)`, sorted and apart: what PostgreSQL calls an int8multirange."""

from collections.abc import Iterable, Iterator, Sequence

Span = tuple[int, int]


def normalise(spans: Iterable[Span]) -> list[Span]:
    """Sorted, without empty ones, and with touching ones joined."""
    joined: list[Span] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((first, end))
    return joined


def missing(covered: Sequence[Span], wanted: Span) -> list[Span]:
    """The parts of `wanted` that are not covered yet."""
    first, end = wanted
    gaps: list[Span] = []
    for low, high in covered:
        if high <= first:
            continue
        if low >= end:
            break
        if first < low:
            gaps.append((first, low))
        first = max(first, high)
    if first < end:
        gaps.append((first, end))
    return gaps


def without(spans: Sequence[Span], removed: Sequence[Span]) -> list[Span]:
    """`spans` less `removed`."""
    return [gap for span in spans for gap in missing(removed, span)]


def shared(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """What both hold."""
    return without(spans, without(spans, others))


def runs_of(span: Span, bits: int) -> Iterator[Span]:
    """`span` cut where the sequences' upper bits change."""
    first, end = span
    while first < end:
        cut = min(end, (first >> bits) + 1 << bits)
        yield first, cut
        first = cut


def contiguous_to(filled: Sequence[Span]) -> int:
    """The highest sequence up to which nothing is missing; 0 when the first one is. Streams begin at 1."""
    if not filled or filled[0][0] > 1:
        return 0
    return filled[0][1] - 1


def count(spans: Iterable[Span]) -> int:
    return sum(end - first for first, end in spans)

"""Ranges of sequences. Both ends are inclusive, as on the wire."""

from collections.abc import Iterable

Range = tuple[int, int]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Sorted, with touching and overlapping ranges joined."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def without(whole: Range, covered: Iterable[Range]) -> list[Range]:
    """What of `whole` none of `covered` holds."""
    left: list[Range] = []
    start, end = whole
    for first, last in merged(covered):
        if last < start:
            continue
        if first > end:
            break
        if first > start:
            left.append((start, first - 1))
        start = last + 1
    if start <= end:
        left.append((start, end))
    return left


def runs(numbers: Iterable[int]) -> list[Range]:
    return merged((number, number) for number in numbers)

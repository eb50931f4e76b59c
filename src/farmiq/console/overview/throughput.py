"""Samples a second that the edge and the cloud stored: two lines that should be one, with the gap between them. Pure."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import floor, log10
from typing import Final

from msgspec import Struct

Point = tuple[float, float]
"""Seconds, and how many had been stored by then."""

WINDOW_SECONDS: Final = 600.0
STEP_SECONDS: Final = 10.0
WIDTH, HEIGHT = 1000.0, 180.0
MARGIN: Final = 8.0


class Plot(Struct, frozen=True):
    """Ready to be drawn. The lists hold SVG points; a line that is interrupted comes in pieces."""

    edge: tuple[str, ...]
    cloud: tuple[str, ...]
    gaps: tuple[str, ...]
    ticks: tuple[tuple[float, str], ...]
    """Where on the side, from the top, and what is written there."""
    edge_now: float | None
    cloud_now: float | None
    seconds: float
    """How far back it is known."""


def plot(edge: Sequence[Point], cloud: Sequence[Point], now: float) -> Plot:
    edge_rates, cloud_rates = rates(edge, now), rates(cloud, now)
    known = [rate for rate in (*edge_rates, *cloud_rates) if rate is not None]
    top = nice_top(max(known, default=1.0))
    first = min((history[0][0] for history in (edge, cloud) if history), default=now)
    return Plot(
        edge=tuple(_line(run, edge_rates, top) for run in _runs(edge_rates)),
        cloud=tuple(_line(run, cloud_rates, top) for run in _runs(cloud_rates)),
        gaps=tuple(_area(run, edge_rates, cloud_rates, top) for run in _runs(_both(edge_rates, cloud_rates))),
        ticks=tuple((_y(top * part, top), f"{top * part:,.10g}") for part in (1.0, 0.5, 0.0)),
        edge_now=edge_rates[-1],
        cloud_now=cloud_rates[-1],
        seconds=min(WINDOW_SECONDS, now - first),
    )


def rates(history: Sequence[Point], now: float) -> list[float | None]:
    """Of each step of the window, the oldest first. None where it is not known, and where counting began anew."""
    steps = round(WINDOW_SECONDS / STEP_SECONDS)
    # The steps stand still while time goes on, or a line would tremble with each beat.
    end = now - now % STEP_SECONDS
    edges = [end - (steps - number) * STEP_SECONDS for number in range(steps + 1)]
    totals = [_total_at(history, at) for at in edges]
    return [
        None if before is None or after is None or after < before else (after - before) / STEP_SECONDS
        for before, after in pairwise(totals)
    ]


def nice_top(highest: float) -> float:
    """The next of 1, 2 and 5 with noughts, so that what is written on the side is a round number. At least 1."""
    if highest <= 1:
        return 1.0
    scale = 10.0 ** floor(log10(highest))
    return next(scale * part for part in (1, 2, 5, 10) if scale * part >= highest)


def _total_at(history: Sequence[Point], at: float) -> float | None:
    """Between two looks evenly; None before the first and after the last."""
    place = bisect_right(history, at, key=lambda point: point[0])
    if place > 0 and history[place - 1][0] == at:
        return history[place - 1][1]
    if place == 0 or place == len(history):
        return None
    (start, low), (end, high) = history[place - 1], history[place]
    if high < low:
        return None
    return low + (high - low) * (at - start) / (end - start)


def _both(one: Sequence[float | None], other: Sequence[float | None]) -> list[float | None]:
    return [None if a is None or b is None else a for a, b in zip(one, other, strict=True)]


def _runs(values: Sequence[float | None]) -> list[range]:
    """Where something is known without a break. A single step is no line."""
    found: list[range] = []
    start: int | None = None
    for place, value in enumerate((*values, None)):
        if value is None and start is not None:
            found += [range(start, place)] if place - start > 1 else []
            start = None
        elif value is not None and start is None:
            start = place
    return found


def _x(place: int) -> float:
    steps = round(WINDOW_SECONDS / STEP_SECONDS)
    return WIDTH * place / (steps - 1)


def _y(rate: float, top: float) -> float:
    return round((HEIGHT - 2 * MARGIN) * (1 - rate / top) + MARGIN, 1)


def _line(run: range, values: Sequence[float | None], top: float) -> str:
    return " ".join(f"{_x(place):.1f},{_y(values[place] or 0.0, top)}" for place in run)


def _area(run: range, upper: Sequence[float | None], lower: Sequence[float | None], top: float) -> str:
    return f"{_line(run, upper, top)} " + " ".join(
        f"{_x(place):.1f},{_y(lower[place] or 0.0, top)}" for place in reversed(run)
    )

"""What static/charts.js draws: lines over time, with their spread, and bands where something is wrong. Pure.

The shape is a contract with that file, which shows the same figures as a sentence and as a table.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Final, Literal

from msgspec import Struct

LINES_MAX: Final = 8
"""More can't be told apart."""
GAP_FACTOR: Final = 5
GAP_SECONDS_MIN: Final = 3.0

EXTREMES: Final = ("lowest", "highest")

BandKind = Literal["lost", "missing", "late"]


class Point(Struct, frozen=True):
    """`low` and `high` are there where the value stands for several."""

    at: datetime
    value: float
    low: float | None = None
    high: float | None = None
    samples: int = 1


class Curve(Struct, frozen=True):
    """In the order of time. `step_seconds` lie between two points; None where nobody says so."""

    label: str
    unit: str
    points: Sequence[Point]
    step_seconds: float | None = None
    is_points: bool = False


class Line(Struct, frozen=True):
    label: str
    unit: str
    at: list[float]
    values: list[float | None]
    low: list[float | None] | None
    high: list[float | None] | None
    is_points: bool


class Band(Struct, frozen=True):
    kind: BandKind
    label: str
    since: float
    until: float


class Chart(Struct, frozen=True, kw_only=True):
    """`spread` says what a line's `low` and `high` are."""

    title: str
    x: Literal["time", "day"] = "time"
    since: float | None = None
    until: float | None = None
    lines: list[Line]
    bands: list[Band] = []
    spread: tuple[str, str] = EXTREMES
    summary: str
    notes: list[str] = []


def line_of(curve: Curve) -> Line:
    """With a null wherever points are missing between two, so that no line is drawn over it."""
    widest = _gap_seconds(curve)
    at: list[float] = []
    points: list[Point | None] = []
    for point in curve.points:
        moment = point.at.timestamp()
        if at and moment - at[-1] > widest:
            at.append((at[-1] + moment) / 2)
            points.append(None)
        at.append(moment)
        points.append(point)
    has_spread = any(point.low is not None for point in curve.points)
    return Line(
        curve.label,
        curve.unit,
        at,
        [None if point is None else point.value for point in points],
        [None if point is None else point.low for point in points] if has_spread else None,
        [None if point is None else point.high for point in points] if has_spread else None,
        curve.is_points,
    )


def summary_of(curves: Sequence[Curve], spread: tuple[str, str] = EXTREMES, *, is_daily: bool = False) -> str:
    """The figures as sentences, one for each line. What is not an extreme does not count as the lowest or the highest."""
    told = [_sentence(curve, is_daily=is_daily, has_extremes=spread == EXTREMES) for curve in curves if curve.points]
    return " ".join(told) or "Nothing was measured in this time."


def rounded(value: float) -> str:
    """As many digits as charts.js shows."""
    return f"{value:.6g}"


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _sentence(curve: Curve, *, is_daily: bool, has_extremes: bool) -> str:
    low = min(point.low if has_extremes and point.low is not None else point.value for point in curve.points)
    high = max(point.high if has_extremes and point.high is not None else point.value for point in curve.points)
    last, unit = curve.points[-1], f" {curve.unit}" if curve.unit else ""
    count = "1 point" if len(curve.points) == 1 else f"{len(curve.points):,} points"
    return (
        f"{curve.label}: {count}, lowest {rounded(low)}{unit}, highest {rounded(high)}{unit},"
        f" last {rounded(last.value)}{unit} {f'on {last.at:%Y-%m-%d}' if is_daily else f'at {moment(last.at)}'}."
    )


def _gap_seconds(curve: Curve) -> float:
    if curve.step_seconds is not None:
        return curve.step_seconds * 1.5
    steps = [(later.at - point.at).total_seconds() for point, later in _pairs(curve.points)]
    return max(GAP_FACTOR * median(steps), GAP_SECONDS_MIN) if steps else GAP_SECONDS_MIN


def _pairs(points: Sequence[Point]) -> Iterable[tuple[Point, Point]]:
    return pairwise(points)

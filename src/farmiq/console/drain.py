"""When a backlog will be gone, from how it changed of late. Pure."""

from collections.abc import Sequence

from msgspec import Struct

Trend = str  # "empty", "draining", "growing", "steady"


class Outlook(Struct, frozen=True):
    """`seconds` until it is empty, if it goes on like this; None when it does not shrink."""

    trend: Trend
    change_per_second: float
    seconds: float | None


def outlook(history: Sequence[tuple[float, float]], window_seconds: float = 60.0) -> Outlook:
    """From pairs of a time and a depth. A least-squares line: one late sample does not turn the sign."""
    if not history or history[-1][1] <= 0:
        return Outlook("empty", 0.0, 0.0)
    recent = [(at, depth) for at, depth in history if at >= history[-1][0] - window_seconds]
    slope = _slope(recent)
    depth = recent[-1][1]
    # Less than a hundredth of the depth in a minute is no trend that a person could act upon.
    if abs(slope) * 60 < max(depth / 100, 0.5):
        return Outlook("steady", slope, None)
    return Outlook("draining", slope, depth / -slope) if slope < 0 else Outlook("growing", slope, None)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    if len(points) < 2:
        return 0.0
    mean_at = sum(at for at, _ in points) / len(points)
    mean_depth = sum(depth for _, depth in points) / len(points)
    spread = sum((at - mean_at) ** 2 for at, _ in points)
    return sum((at - mean_at) * (depth - mean_depth) for at, depth in points) / spread if spread else 0.0

"""A rounded solid along a bent line, seen from above: trunk, head, ear and tail are all drawn with it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farmiq.sim.views import Plane

TABLE = 129
Table = NDArray[np.float32]  # a value for each place along a spine


@dataclass(frozen=True)
class Spine:
    """An arc on the ground plane, by its middle."""

    x_m: float
    y_m: float
    heading: float  # radians
    length_m: float
    bend: float = 0.0  # radians from end to end

    def end(self, share: float, aside_m: float = 0.0) -> tuple[float, float, float]:
        """Where the point at this share of the length lies (0 behind, 1 in front), and which way it looks."""
        angle = self.bend * (share - 0.5)
        if abs(self.bend) < 1e-3:
            ahead, aside = self.length_m * (share - 0.5), 0.0
        else:
            radius = self.length_m / self.bend
            ahead, aside = radius * math.sin(angle), radius * (1 - math.cos(angle))
        ahead, aside = ahead - aside_m * math.sin(angle), aside + aside_m * math.cos(angle)
        cos, sin = math.cos(self.heading), math.sin(self.heading)
        return self.x_m + ahead * cos - aside * sin, self.y_m + ahead * sin + aside * cos, self.heading + angle


@dataclass(frozen=True)
class Outline:
    along: Plane  # 0 behind to 1 in front
    side: Plane  # -1 and 1 at the edges
    inside_m: Plane  # how far inside the edge; below 0 outside


def profile(points: list[tuple[float, float]]) -> Table:
    """A smooth curve through points (position, value), as a table over 0 to 1."""
    positions, values = (np.array(column) for column in zip(*points, strict=True))
    slopes = np.gradient(values, positions)
    at = np.linspace(0, 1, TABLE)
    index = np.clip(np.searchsorted(positions, at, side="right") - 1, 0, len(positions) - 2)
    step = positions[index + 1] - positions[index]
    t = (at - positions[index]) / step
    curve = (
        (2 * t**3 - 3 * t**2 + 1) * values[index]
        + (t**3 - 2 * t**2 + t) * step * slopes[index]
        + (3 * t**2 - 2 * t**3) * values[index + 1]
        + (t**3 - t**2) * step * slopes[index + 1]
    )
    table: Table = np.maximum(curve, 0).astype(np.float32)
    return table


def rounded(table: Table, behind: float, ahead: float) -> Table:
    """Both ends closed by a quarter of an ellipse of that share of the length."""
    at = np.linspace(0, 1, TABLE)
    back = np.clip(at / behind, 0, 1) if behind else np.ones(TABLE)
    front = np.clip((1 - at) / ahead, 0, 1) if ahead else np.ones(TABLE)
    ends = np.sqrt(1 - (1 - back) ** 2) * np.sqrt(1 - (1 - front) ** 2)
    closed: Table = (table * ends).astype(np.float32)
    return closed


def outline(x: Plane, y: Plane, spine: Spine, half_width_m: Table) -> Outline:
    cos, sin = np.float32(math.cos(spine.heading)), np.float32(math.sin(spine.heading))
    dx, dy = x - np.float32(spine.x_m), y - np.float32(spine.y_m)
    ahead: Plane = dx * cos + dy * sin
    aside: Plane = dy * cos - dx * sin
    if abs(spine.bend) > 1e-3:
        ahead, aside = _along_arc(ahead, aside, spine.length_m / spine.bend)
    along: Plane = ahead / np.float32(spine.length_m) + np.float32(0.5)
    half = look_up(half_width_m, along)
    beyond = np.maximum(-along, along - 1) * np.float32(spine.length_m)
    inside = np.where(beyond > 0, -np.hypot(beyond, np.maximum(np.abs(aside) - half, 0)), half - np.abs(aside))
    side = np.divide(aside, np.maximum(half, np.float32(1e-4)), dtype=np.float32)
    return Outline(along=along, side=side, inside_m=inside)


def look_up(table: Table, along: Plane) -> Plane:
    place = np.clip(along, 0, 1) * np.float32(TABLE - 1)
    low = np.minimum(place.astype(np.int32), TABLE - 2)
    value: Plane = table[low] + (table[low + 1] - table[low]) * (place - low)
    return value


def _along_arc(ahead: Plane, aside: Plane, radius_m: float) -> tuple[Plane, Plane]:
    sign = np.float32(math.copysign(1.0, radius_m))
    radius = np.float32(abs(radius_m))
    aside = aside * sign
    along = np.arctan2(ahead, radius - aside) * radius
    return along, (radius - np.hypot(ahead, radius - aside)) * sign

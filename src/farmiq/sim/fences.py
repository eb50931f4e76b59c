"""The steel over and around the crate: the top rails, the gates at both ends, and bars in the way."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farmiq.sim.scenes import CRATE_LENGTH_M, CRATE_WIDTH_M, WALL_HEIGHT_M, Bar, Light
from farmiq.sim.views import Colours, Plane, View

_STEEL = np.array((0.66, 0.68, 0.70), np.float32)[:, None, None]
_BAR_HEIGHT_M = 1.05
_GATE_HEIGHTS_M = (0.35, 0.62, 0.90)


@dataclass(frozen=True)
class Fence:
    colours: Colours
    cover: Plane

    def lay_over(self, colours: Colours) -> None:
        colours += self.cover * (self.colours - colours)


def fence(view: View, light: Light, bars: tuple[Bar, ...]) -> Fence:
    steel = Fence(np.zeros((3, *view.x.shape), np.float32), np.zeros_like(view.x))
    for end in (-CRATE_LENGTH_M / 2, CRATE_LENGTH_M / 2):
        for z_m in _GATE_HEIGHTS_M:
            x, y = view.at(z_m)
            _tube(steel, x - np.float32(end), 0.017, light, np.abs(y) < CRATE_WIDTH_M / 2 + 0.03)
    _, y = view.at(WALL_HEIGHT_M)
    for side in (-1, 1):
        _tube(steel, y - np.float32(side * (CRATE_WIDTH_M / 2 + 0.012)), 0.020, light)
    for bar in bars:
        _bar(steel, view, light, bar)
    return steel


def _bar(steel: Fence, view: View, light: Light, bar: Bar) -> None:
    x, y = view.at(_BAR_HEIGHT_M)
    turn = math.radians(bar.turn_degrees)
    across = (x - np.float32(bar.x_m)) * np.float32(math.cos(turn)) + y * np.float32(math.sin(turn))
    _tube(steel, across, bar.radius_m, light)


def _tube(steel: Fence, across: Plane, radius_m: float, light: Light, where: NDArray[np.bool_] | None = None) -> None:
    """`across` is the distance from the tube's axis. Only the part of the picture that it crosses is touched."""
    near = np.abs(across) < np.float32(radius_m * 1.1)
    if where is not None:
        near &= where
    rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
    if not len(rows):
        return
    place = (slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
    side = across[place] / np.float32(radius_m)
    cover = np.clip((np.float32(1.06) - np.abs(side)) / np.float32(0.12), 0, 1) * near[place]
    lean = math.cos(math.radians(light.azimuth_degrees)) * math.cos(math.radians(light.elevation_degrees))
    roundness = np.sqrt(1 - np.minimum(np.abs(side), 1) ** 2) * np.float32(0.9) + side * np.float32(lean * 0.5)
    shade = np.float32(light.ambient) + np.float32(1 - light.ambient) * np.clip(roundness, 0, 1.2)
    over, under = steel.colours[:, *place], steel.cover[place]
    over += cover * (_STEEL * (np.float32(0.35) + np.float32(0.7) * shade) - over)
    np.maximum(under, cover, out=under)

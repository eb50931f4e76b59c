"""The camera, looking straight down: for each pixel, where its line of sight meets a level plane."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from farmiq.sim.scenes import Camera

Plane = NDArray[np.float32]
Colours = NDArray[np.float32]  # 3 x height x width, each 0 to 1


_STEP = 8


@dataclass(frozen=True)
class Box:
    """A part of the picture, in pixels. What is small is worked out on its own part only."""

    rows: slice
    columns: slice

    def of(self, plane: Plane) -> Plane:
        return plane[self.rows, self.columns]


@dataclass(frozen=True)
class View:
    x: Plane  # metres to the right per metre of depth
    y: Plane
    height_m: float
    pixels_per_metre: float  # on the floor

    def at(self, z_m: float, box: Box | None = None) -> tuple[Plane, Plane]:
        depth = np.float32(self.height_m - z_m)
        if box is None:
            return self.x * depth, self.y * depth
        return box.of(self.x) * depth, box.of(self.y) * depth

    def box_around(self, x_m: float, y_m: float, z_m: float, reach_m: tuple[float, float]) -> Box | None:
        """What lies within reach to the sides and up and down; None when nothing of it is in the picture."""
        # Every eighth pixel is enough to find it: the box grows by that much on each side.
        depth = np.float32(self.height_m - z_m)
        x, y = self.x[::_STEP, ::_STEP] * depth, self.y[::_STEP, ::_STEP] * depth
        inside = (np.abs(x - np.float32(x_m)) < reach_m[0]) & (np.abs(y - np.float32(y_m)) < reach_m[1])
        rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        if not len(rows):
            return None
        return Box(_widened(rows), _widened(columns))

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, as Pillow counts."""
        return self.x.shape[1], self.x.shape[0]


def _widened(hits: NDArray[np.intp]) -> slice:
    return slice(max(0, (int(hits[0]) - 1) * _STEP), (int(hits[-1]) + 2) * _STEP)


def view(camera: Camera, width: int, height: int) -> View:
    half = camera.view_width_m / camera.height_m / 2
    column = (np.arange(width, dtype=np.float32) + 0.5) / width * 2 - 1
    row = ((np.arange(height, dtype=np.float32) + 0.5) / height * 2 - 1) * (height / width)
    across, down = np.meshgrid(column, row)
    stretch = 1 - camera.distortion * (across**2 + down**2 - 0.5)
    across, down = across * stretch * half, down * stretch * half
    roll = math.radians(camera.roll_degrees)
    x = across * math.cos(roll) - down * math.sin(roll) + camera.offset_x_m / camera.height_m
    y = across * math.sin(roll) + down * math.cos(roll) + camera.offset_y_m / camera.height_m
    return View(
        x=x.astype(np.float32),
        y=y.astype(np.float32),
        height_m=camera.height_m,
        pixels_per_metre=width / camera.view_width_m,
    )


def cloud(rng: np.random.Generator, size: tuple[int, int], cells: int) -> Plane:
    """Soft noise from 0 to 1 over the whole picture, with about so many bumps from left to right."""
    width, height = size
    rows = max(2, round(cells * height / width))
    grid = rng.random((rows, max(2, cells)), dtype=np.float32)
    return np.asarray(Image.fromarray(grid).resize(size, Image.Resampling.BICUBIC), dtype=np.float32).clip(0, 1)


def blurred(mask: Plane, radius_pixels: float) -> Plane:
    """A soft shadow: worked out on a small copy, because it holds no detail."""
    height, width = mask.shape
    factor = max(1, int(radius_pixels / 2))
    small = (max(1, width // factor), max(1, height // factor))
    image = Image.fromarray(mask).resize(small, Image.Resampling.BOX)
    array = np.asarray(image, dtype=np.float32)
    for axis in (0, 1):
        array = _smooth(array, max(1, round(radius_pixels / factor)), axis)
    return np.asarray(Image.fromarray(array).resize((width, height), Image.Resampling.BILINEAR), dtype=np.float32)


def _smooth(array: Plane, radius: int, axis: int) -> Plane:
    """Twice a moving mean is close to a bell curve."""
    width = 2 * radius + 1
    for _ in range(2):
        padding = [(radius + 1, radius) if dimension == axis else (0, 0) for dimension in (0, 1)]
        sums = np.cumsum(np.pad(array, padding, mode="edge"), axis=axis, dtype=np.float32)
        head = np.take(sums, range(width, sums.shape[axis]), axis=axis)
        tail = np.take(sums, range(sums.shape[axis] - width), axis=axis)
        array = ((head - tail) / np.float32(width)).astype(np.float32)
    return array

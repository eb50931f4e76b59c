"""The floor and the walls of the crate: texture, dirt, straw, and the light that falls on them."""

import math

import numpy as np
from PIL import Image, ImageDraw

from farmiq.sim.coats import Colour
from farmiq.sim.scenes import CRATE_WIDTH_M, WALL_HEIGHT_M, Floor, Light
from farmiq.sim.views import Colours, Plane, View, cloud

_DIRT = np.array((0.23, 0.17, 0.12), np.float32)[:, None, None]
_STRAW = np.array((0.80, 0.68, 0.38), np.float32)[:, None, None]
_GROUND = {
    "concrete": (0.58, 0.57, 0.55),
    "plastic": (0.72, 0.75, 0.74),
    "steel": (0.62, 0.64, 0.66),
    "planks": (0.55, 0.42, 0.29),
    "rubber": (0.24, 0.25, 0.25),
    "bricks": (0.55, 0.34, 0.27),
    "grating": (0.43, 0.45, 0.46),
    "cobbles": (0.50, 0.48, 0.45),
    "mesh": (0.50, 0.51, 0.50),
    "herringbone": (0.60, 0.50, 0.41),
    "gravel": (0.46, 0.45, 0.44),
}


def ground(view: View, floor: Floor, light: Light) -> Colours:
    """Floor and walls, lit, without shadows of what stands on them."""
    rng = np.random.default_rng([floor.seed, 7])
    x, y = view.at(0.0)
    lightness = _relief(floor.kind, x, y, rng)
    lightness *= np.float32(0.86) + np.float32(0.28) * cloud(rng, view.size, 90)
    lightness *= np.float32(0.85) + np.float32(0.30) * cloud(rng, view.size, 9)
    colours = np.array(_colour(floor), np.float32)[:, None, None] * lightness
    _spread_dirt(colours, floor, view, rng)
    _strew(colours, floor, view, rng)
    _build_walls(colours, floor, view, light, rng)
    return colours


def _relief(kind: str, x: Plane, y: Plane, rng: np.random.Generator) -> Plane:
    """How light the surface is at each place, from its gaps and bumps."""
    shift = np.float32(rng.uniform(0, 1))
    relief: Plane
    match kind:
        case "concrete":
            relief = _gaps(x, 0.115, 0.020, shift)
        case "plastic":
            relief = np.maximum(_gaps(x, 0.050, 0.011, shift), 1.28 - _gaps(y, 0.11, 0.03, shift))
        case "steel":
            bumps = np.sin((x + y) * np.float32(110)) * np.sin((x - y) * np.float32(110))
            relief = 1 + np.float32(0.16) * np.clip(bumps * 3 - 1.2, -0.3, 1)
        case "planks":
            relief = _gaps(y, 0.12, 0.006, shift) * (1 + np.float32(0.07) * np.sin(y * 300 + np.sin(x * 9) * 2))
        case "rubber":
            studs = np.sin(x * np.float32(160)) * np.sin(y * np.float32(160))
            relief = 1 + np.float32(0.25) * np.clip(studs * 2 - 1, -0.2, 1)
        case "bricks" | "cobbles" | "gravel" | "herringbone":
            relief = _paving(kind, x, y, shift)
        case "mesh":
            relief = _gaps(x + y * 2, 0.09, 0.012, shift) * _gaps(x - y * 2, 0.09, 0.012, shift)
        case "invented":
            relief = _invented(x, y, rng)
        case _:
            relief = _gaps(x, 0.036, 0.014, shift) * _gaps(y, 0.30, 0.012, shift)
    return relief


def _paving(kind: str, x: Plane, y: Plane, shift: np.float32) -> Plane:
    relief: Plane
    match kind:
        case "bricks":
            course = np.floor(y / np.float32(0.075))
            relief = _gaps(y, 0.075, 0.009, np.float32(0)) * _gaps(x + course * np.float32(0.1), 0.21, 0.009, shift)
        case "cobbles":
            step = np.float32(2 * math.pi / 0.085)
            aslant = y * np.float32(0.866)
            stones = np.cos(x * step) + np.cos((x * np.float32(0.5) + aslant) * step)
            stones += np.cos((x * np.float32(0.5) - aslant) * step)
            relief = np.clip(np.float32(0.78) + stones * np.float32(0.2), 0.3, 1.1)
        case "herringbone":
            zigzag = np.abs(np.mod(x / np.float32(0.24) + shift, 1) - np.float32(0.5)) * np.float32(0.24)
            relief = _gaps(y + zigzag, 0.065, 0.008, shift)
        case _:
            pebbles = np.sin(x * 95 + np.sin(y * 61) * 2) * np.sin(y * 88 + np.sin(x * 53) * 2)
            relief = np.clip(np.float32(0.85) + pebbles * np.float32(0.3), 0.4, 1.2)
    return relief


def _colour(floor: Floor) -> Colour:
    if floor.kind != "invented":
        return _GROUND[floor.kind]
    rng = np.random.default_rng([floor.seed, 14])
    red, green, blue = np.clip(rng.uniform(0.15, 0.9) + rng.normal(0.0, rng.uniform(0.0, 0.1), 3), 0.05, 1.0)
    return float(red), float(green), float(blue)


def _invented(x: Plane, y: Plane, rng: np.random.Generator) -> Plane:
    """Smooth, slats, a grid or studs, of any size and direction, light on dark or dark on light. Lines are straight and cross at
    right angles: a model is measured on floors where they don't."""
    form, period = int(rng.integers(4)), float(np.exp(rng.uniform(math.log(0.03), math.log(0.35))))
    angle = float(rng.choice((0.0, math.pi / 2, rng.uniform(0.0, math.pi))))
    cos, sin = np.float32(math.cos(angle)), np.float32(math.sin(angle))
    along, across = x * cos + y * sin, y * cos - x * sin
    gap, shift, depth = (
        period * float(rng.uniform(0.06, 0.45)),
        np.float32(rng.uniform()),
        np.float32(rng.uniform(0.2, 1.1)),
    )
    lines = np.ones_like(x)
    if form in (1, 2):
        lines = _gaps(along, period, gap, shift)
    if form == 2:
        lines = np.minimum(lines, _gaps(across, period * float(rng.uniform(0.7, 4.0)), gap, shift))
    if form == 3:
        turns = np.float32(2 * math.pi / period)
        lines = np.clip(np.sin(along * turns) * np.sin(across * turns) * 2 - np.float32(0.5), -0.3, 1)
    if rng.random() < 0.3:
        lines = np.float32(1.28) - lines
    relief: Plane = np.maximum(1 - depth * (1 - lines), np.float32(0.1))
    return relief


def _gaps(along: Plane, period_m: float, gap_m: float, shift: np.float32) -> Plane:
    """1 on the slat, dark in the gap, with soft edges."""
    place = np.abs(np.mod(along / np.float32(period_m) + shift, 1) - np.float32(0.5)) * np.float32(period_m)
    edge = np.clip((place - np.float32(gap_m / 2)) / np.float32(0.004) + np.float32(0.5), 0, 1)
    lightness: Plane = np.float32(0.28) + np.float32(0.72) * edge
    return lightness


def _spread_dirt(colours: Colours, floor: Floor, view: View, rng: np.random.Generator) -> None:
    layers = cloud(rng, view.size, 14) * np.float32(0.65) + cloud(rng, view.size, 45) * np.float32(0.35)
    share = np.clip((layers - np.float32(0.85 - 0.55 * floor.dirt)) * 4, 0, 0.85)
    colours += share * (_DIRT - colours)


def _strew(colours: Colours, floor: Floor, view: View, rng: np.random.Generator) -> None:
    if not floor.straw:
        return
    width, height = view.size
    sheet = Image.new("L", (width * 2, height * 2))
    pen = ImageDraw.Draw(sheet)
    unit = view.pixels_per_metre * 2
    for _ in range(floor.straw):
        at_x, at_y = rng.uniform(0, width * 2), rng.uniform(0, height * 2)
        angle, length = rng.uniform(0, math.pi), rng.uniform(0.05, 0.16) * unit
        end = (at_x + length * math.cos(angle), at_y + length * math.sin(angle))
        pen.line((at_x, at_y, *end), fill=int(rng.integers(130, 255)), width=max(1, round(0.006 * unit)))
    share = np.asarray(sheet.reduce(2), np.float32) / np.float32(255)
    colours += share * (_STRAW - colours)


def _build_walls(colours: Colours, floor: Floor, view: View, light: Light, rng: np.random.Generator) -> None:
    """Where the line of sight meets a wall before the floor. Beyond the top of the wall it sees the passage outside."""
    half = np.float32(CRATE_WIDTH_M / 2)
    slant = np.maximum(np.abs(view.y), np.float32(1e-4))
    z = np.float32(view.height_m) - half / slant
    azimuth = math.radians(light.azimuth_degrees)
    # The wall with positive y looks towards negative y, and is lit when the light comes from there.
    far, near = (
        np.float32(0.35 + 0.65 * (light.ambient + (1 - light.ambient) * max(0.0, toward)))
        for toward in (-math.sin(azimuth), math.sin(azimuth))
    )
    stain = np.float32(0.75) + np.float32(0.25) * np.clip(z / np.float32(0.25), 0, 1)
    speckle = np.float32(0.92) + np.float32(0.16) * cloud(rng, view.size, 60)
    paint = np.array(floor.wall, np.float32)[:, None, None]
    is_outside = np.clip((z - np.float32(WALL_HEIGHT_M)) * np.float32(50), 0, 1)
    lightness = stain * np.where(view.y > 0, far, near)
    lightness += is_outside * (np.float32(0.45) - lightness)
    is_wall = np.clip(z * np.float32(80) + np.float32(0.5), 0, 1)
    colours += is_wall * (paint * (lightness * speckle) - colours)

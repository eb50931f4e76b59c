"""Pictures that show no animal that could be weighed: a model must say so and not guess.

A station takes such pictures: the crate is empty, two animals squeeze in, one is already leaving. The others show no crate
at all: a lens cap, a cable that fell out, somebody's calendar. All kinds are in all families of scenes."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw

from farmiq.sim.animals import Body, Pig, Pose, body, born, stance
from farmiq.sim.pictures import HEIGHT, WIDTH, photograph
from farmiq.sim.scenes import CRATE_LENGTH_M, Family, Scene, coat, scene
from farmiq.sim.views import cloud

Size = tuple[int, int]
Draw = Callable[[np.random.Generator, Size], Image.Image]
Stand = Callable[[Family, int, np.random.Generator], tuple[tuple[Pig, Body, Pose], ...]]


def misfire(kind: str, family: Family, seed: int, *, size: Size = (WIDTH, HEIGHT)) -> Image.Image:
    rng = np.random.default_rng([seed, 10])
    if kind in IN_THE_CRATE:
        return photograph(IN_THE_CRATE[kind](family, seed, rng), _without_neighbour(family, seed), seed, size=size)
    return ELSEWHERE[kind](rng, size)


def _without_neighbour(family: Family, seed: int) -> Scene:
    """Half of the scenes keep the animal that looks in, so that a head behind the gate is never taken for one on the scale."""
    drawn = scene(family, seed)
    return replace(drawn, neighbour_seed=None) if seed % 2 else drawn


def _empty(_family: Family, _seed: int, _rng: np.random.Generator) -> tuple[tuple[Pig, Body, Pose], ...]:
    return ()


def _crowded(family: Family, seed: int, rng: np.random.Generator) -> tuple[tuple[Pig, Body, Pose], ...]:
    animals = []
    for place, side in ((seed, -1.0), (seed + 1, 1.0)):
        pig = born(place, coat(family, place))
        pose = stance(place)
        aside, ahead = float(rng.uniform(0.09, 0.17)) * side, float(rng.uniform(-0.3, 0.3))
        animals.append((pig, body(pig, float(rng.uniform(20.0, 110.0))), replace(pose, x_m=ahead, y_m=aside)))
    return tuple(animals)


def _leaving(family: Family, seed: int, rng: np.random.Generator) -> tuple[tuple[Pig, Body, Pose], ...]:
    """Between a third and three quarters of the trunk are beyond the gate."""
    pig = born(seed, coat(family, seed))
    measures = body(pig, float(rng.uniform(20.0, 125.0)))
    end = 1.0 if rng.random() < 0.5 else -1.0
    beyond = float(rng.uniform(0.33, 0.75)) - 0.5
    return ((pig, measures, replace(stance(seed), x_m=end * (CRATE_LENGTH_M / 2 + beyond * measures.length_m))),)


def _flat(rng: np.random.Generator, size: Size) -> Image.Image:
    colour = rng.integers(0, 256, 3)
    return Image.new("RGB", size, (int(colour[0]), int(colour[1]), int(colour[2])))


def _static(rng: np.random.Generator, size: Size) -> Image.Image:
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def _blotches(rng: np.random.Generator, size: Size) -> Image.Image:
    cells = int(rng.integers(3, 30))
    channels = [cloud(rng, size, cells) * 255 for _ in range(3)]
    return Image.fromarray(np.stack(channels, axis=2).astype(np.uint8))


def _stripes(rng: np.random.Generator, size: Size) -> Image.Image:
    width, height = size
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / width)
    angle, turns = rng.uniform(0, math.pi), rng.uniform(3, 40)
    wave = 0.5 + 0.5 * np.sin((x * math.cos(angle) + y * math.sin(angle)) * turns * 2 * math.pi)
    first, second = rng.uniform(0, 255, 3), rng.uniform(0, 255, 3)
    return Image.fromarray((first + wave[..., None] * (second - first)).astype(np.uint8))


def _shapes(rng: np.random.Generator, size: Size) -> Image.Image:
    """Round and square things of any colour: an ellipse alone is no animal."""
    width, height = size
    image = _flat(rng, size)
    pen = ImageDraw.Draw(image)
    for _ in range(int(rng.integers(1, 9))):
        x, y = rng.uniform(-0.1, 0.9) * width, rng.uniform(-0.1, 0.9) * height
        box = (x, y, x + rng.uniform(0.05, 0.7) * width, y + rng.uniform(0.05, 0.6) * height)
        colour = rng.integers(0, 256, 3)
        shape = pen.ellipse if rng.random() < 0.6 else pen.rectangle
        shape(box, fill=(int(colour[0]), int(colour[1]), int(colour[2])))
    return image


def _printed_page(rng: np.random.Generator, size: Size) -> Image.Image:
    width, height = size
    image = Image.new("RGB", size, (240, 238, 232))
    pen = ImageDraw.Draw(image)
    step = max(4, height // int(rng.integers(12, 26)))
    for top in range(step, height - step, step):
        left = width * 0.06
        while left < width * float(rng.uniform(0.7, 0.94)):
            word = width * float(rng.uniform(0.02, 0.10))
            pen.rectangle((left, top, left + word, top + step * 0.45), fill=(45, 45, 50))
            left += word + width * 0.012
    return image


def _corridor(rng: np.random.Generator, size: Size) -> Image.Image:
    """The camera has been turned away: two smooth ramps of light that meet in an edge."""
    width, height = size
    ramp = np.linspace(float(rng.uniform(20, 120)), float(rng.uniform(120, 240)), width)
    edge = int(height * rng.uniform(0.3, 0.7))
    rows = np.where(np.arange(height) < edge, 1.0, float(rng.uniform(0.3, 0.8)))[:, None] * ramp
    tint = rng.uniform(0.8, 1.0, 3)
    return Image.fromarray((rows[..., None] * tint).astype(np.uint8))


IN_THE_CRATE: dict[str, Stand] = {"empty": _empty, "crowded": _crowded, "leaving": _leaving}
ELSEWHERE: dict[str, Draw] = {
    "flat": _flat,
    "static": _static,
    "blotches": _blotches,
    "stripes": _stripes,
    "shapes": _shapes,
    "printed_page": _printed_page,
    "corridor": _corridor,
}
KINDS = (*IN_THE_CRATE, *ELSEWHERE)

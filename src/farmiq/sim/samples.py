"""One picture with its true weight: what a model learns from and is measured on."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from farmiq.sim.animals import Pig, Pose, body, born, stance
from farmiq.sim.figure import trunk_cover
from farmiq.sim.misfires import IN_THE_CRATE, KINDS, misfire
from farmiq.sim.pictures import HEIGHT, WIDTH, picture
from farmiq.sim.scenes import CRATE_WIDTH_M, WALL_HEIGHT_M, Family, Scene, coat, scene
from farmiq.sim.views import Colours, view

LIGHTEST_KG, HEAVIEST_KG = 16.0, 138.0


@dataclass(frozen=True)
class Weighing:
    """An animal on the scale, before its picture is taken."""

    pig: Pig
    weight_kg: float
    pose: Pose
    scene: Scene
    seed: int


@dataclass(frozen=True)
class Sample:
    image: Image.Image
    weight_kg: float | None  # None: there is no animal that could be weighed
    kind: str = "weighed"


def weighing(
    family: Family, seed: int, *, lightest_kg: float = LIGHTEST_KG, heaviest_kg: float = HEAVIEST_KG
) -> Weighing:
    rng = np.random.default_rng([seed, 11])
    # Even over the logarithm: an error of one part in twenty is as bad for a small one as for a large one.
    weight = float(lightest_kg * (heaviest_kg / lightest_kg) ** rng.random())
    return Weighing(born(seed, coat(family, seed)), weight, stance(seed), scene(family, seed), seed)


def weighed(
    family: Family,
    seed: int,
    *,
    lightest_kg: float = LIGHTEST_KG,
    heaviest_kg: float = HEAVIEST_KG,
    size: tuple[int, int] = (WIDTH, HEIGHT),
) -> Sample:
    at = weighing(family, seed, lightest_kg=lightest_kg, heaviest_kg=heaviest_kg)
    return Sample(picture(at.pig, at.weight_kg, at.pose, at.scene, seed, size=size), at.weight_kg)


def misfired(family: Family, seed: int, *, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Sample:
    """The crate three times as often as something else: that is where a station can be wrong."""
    rng = np.random.default_rng([seed, 12])
    odds = np.array([3.0 if kind in IN_THE_CRATE else 1.0 for kind in KINDS])
    kind = KINDS[int(rng.choice(len(KINDS), p=odds / odds.sum()))]
    return Sample(misfire(kind, family, seed, size=size), None, kind)


def traced(at: Weighing, size: tuple[int, int]) -> Colours:
    """What a person would draw over the picture with three pens, as far as nothing stands in the way: the animal's trunk,
    the floor between the walls, and the opening between the tops of the walls. 3 x height x width, each 0 to 1."""
    seen = view(at.scene.camera, *size)
    planes = [trunk_cover(seen, at.pig, body(at.pig, at.weight_kg), at.pose)]
    for z_m in (0.0, WALL_HEIGHT_M):
        _, y = seen.at(z_m)
        pixels = (np.float32(CRATE_WIDTH_M / 2) - np.abs(y)) * np.float32(
            seen.pixels_per_metre * seen.height_m / (seen.height_m - z_m)
        )
        planes.append(np.clip(pixels + np.float32(0.5), 0, 1))
    return np.stack(planes)

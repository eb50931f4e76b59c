"""What the simulated camera sees: the same twice, and something else when anything in front of it changes."""

import io
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from farmiq.sim.animals import Pose, body, born, stance
from farmiq.sim.coats import BELTED, COATS, RED, WHITE
from farmiq.sim.misfires import KINDS, misfire
from farmiq.sim.pictures import jpeg, photograph, picture
from farmiq.sim.samples import misfired, weighed
from farmiq.sim.scenes import FAMILIES, FLOORS, TRAINING, UNSEEN, Bar, Scene

SMALL = (160, 120)
PIG = born(5, WHITE)
PLAIN = Scene()


def _pixels(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image, np.float64)


def _seen(scene: Scene = PLAIN, pose: Pose = Pose(), weight: float = 80.0, seed: int = 1) -> NDArray[np.float64]:  # noqa: B008 - frozen
    return _pixels(picture(PIG, weight, pose, scene, seed, size=SMALL))


def _area(weight: float, seed: int) -> int:
    """Pixels that differ from the empty crate, without grain."""
    scene = replace(PLAIN, camera=replace(PLAIN.camera, noise=0.0), light=replace(PLAIN.light, ambient=1.0))
    pig = born(seed, WHITE)
    full = _pixels(photograph(((pig, body(pig, weight), stance(seed)),), scene, 0, size=SMALL))
    empty = _pixels(photograph((), scene, 0, size=SMALL))
    return int((np.abs(full - empty).max(axis=2) > 60).sum())


def test_a_picture_is_the_same_each_time() -> None:
    first = picture(PIG, 80.0, stance(5), PLAIN, 1)
    assert first.size == (640, 480)
    assert first.mode == "RGB"
    assert first.tobytes() == picture(PIG, 80.0, stance(5), PLAIN, 1).tobytes()
    assert jpeg(first) == jpeg(first)


def test_a_picture_taken_again_differs_by_its_grain_only() -> None:
    difference = np.abs(_seen(seed=1) - _seen(seed=2))
    assert 0 < difference.mean() < 10


CHANGED_SCENES = {
    "camera height": replace(PLAIN, camera=replace(PLAIN.camera, height_m=2.8)),
    "lens": replace(PLAIN, camera=replace(PLAIN.camera, view_width_m=2.8)),
    "distortion": replace(PLAIN, camera=replace(PLAIN.camera, distortion=-0.14)),
    "roll": replace(PLAIN, camera=replace(PLAIN.camera, roll_degrees=3.0)),
    "offset": replace(PLAIN, camera=replace(PLAIN.camera, offset_x_m=0.1)),
    "blur": replace(PLAIN, camera=replace(PLAIN.camera, blur=8.0)),
    "noise": replace(PLAIN, camera=replace(PLAIN.camera, noise=0.3)),
    "light from elsewhere": replace(PLAIN, light=replace(PLAIN.light, azimuth_degrees=220.0)),
    "low light": replace(PLAIN, light=replace(PLAIN.light, elevation_degrees=30.0)),
    "weak light": replace(PLAIN, light=replace(PLAIN.light, strength=0.6)),
    "diffuse light": replace(PLAIN, light=replace(PLAIN.light, ambient=0.9)),
    "warm light": replace(PLAIN, light=replace(PLAIN.light, warmth=0.2)),
    "uneven light": replace(PLAIN, light=replace(PLAIN.light, falloff=0.8)),
    "dirt": replace(PLAIN, floor=replace(PLAIN.floor, dirt=0.9)),
    "straw": replace(PLAIN, floor=replace(PLAIN.floor, straw=80)),
    "wall": replace(PLAIN, floor=replace(PLAIN.floor, wall=(0.2, 0.4, 0.2))),
    "bar": replace(PLAIN, bars=(Bar(0.1, 0.03),)),
    "neighbour": replace(PLAIN, neighbour_seed=2),
    "mud": replace(PLAIN, mud=1.0),
    **{f"floor {kind}": replace(PLAIN, floor=replace(PLAIN.floor, kind=kind)) for kind in FLOORS[1:]},
}


@pytest.mark.parametrize("name", CHANGED_SCENES)
def test_a_picture_shows_each_parameter_of_the_scene(name: str) -> None:
    # The grain has the same seed in both, so any difference comes from the parameter.
    assert np.abs(_seen(CHANGED_SCENES[name]) - _seen()).mean() > 0.3


@pytest.mark.parametrize(
    "pose",
    [
        Pose(x_m=0.1),
        Pose(y_m=0.05),
        Pose(heading_degrees=8.0),
        Pose(heading_degrees=180.0),
        Pose(bend_degrees=20.0),
        Pose(head_yaw_degrees=35.0),
        Pose(head_lowered=1.0),
    ],
    ids=str,
)
def test_a_picture_shows_each_part_of_the_pose(pose: Pose) -> None:
    assert (np.abs(_seen(pose=pose) - _seen()).max(axis=2) > 25).sum() > 10


def test_a_picture_shows_the_coat() -> None:
    colours = {
        coat.name: _pixels(picture(replace(PIG, coat=coat), 80.0, Pose(), PLAIN, 1, size=SMALL))[45:75, 55:105].mean()
        for coat in COATS
    }
    assert colours[WHITE.name] > colours[RED.name] > 0
    assert colours[WHITE.name] > colours[BELTED.name]
    assert len({round(value, 3) for value in colours.values()}) == len(COATS)


@pytest.mark.parametrize(("lighter", "heavier"), [(20.0, 30.0), (50.0, 65.0), (100.0, 125.0)])
def test_heavier_animals_look_larger(lighter: float, heavier: float) -> None:
    small = np.mean([_area(lighter, seed) for seed in range(8)])
    large = np.mean([_area(heavier, seed) for seed in range(8)])
    # An area grows with the weight to the power of two thirds; perspective adds a little.
    assert 0.9 < (large / small) / (heavier / lighter) ** (2 / 3) < 1.25


def test_a_jpeg_can_be_opened_again() -> None:
    image = picture(PIG, 80.0, stance(5), PLAIN, 1)
    content = jpeg(image)
    with Image.open(io.BytesIO(content)) as opened:
        assert (opened.format, opened.size) == ("JPEG", (640, 480))
        assert np.abs(_pixels(opened) - _pixels(image)).mean() < 8
    assert 10_000 < len(content) < 200_000


@pytest.mark.parametrize("kind", KINDS)
def test_a_misfire_is_the_same_each_time_and_another_with_another_seed(kind: str) -> None:
    first = misfire(kind, TRAINING, 1, size=SMALL)
    assert first.size == SMALL
    assert first.tobytes() == misfire(kind, TRAINING, 1, size=SMALL).tobytes()
    assert first.tobytes() != misfire(kind, TRAINING, 2, size=SMALL).tobytes()


def test_samples_carry_their_weight() -> None:
    weights = [
        weighed(UNSEEN, seed, lightest_kg=20.0, heaviest_kg=130.0, size=(32, 16)).weight_kg for seed in range(60)
    ]
    assert all(weight is not None and 20 <= weight <= 130 for weight in weights)
    assert len(set(weights)) == 60


def test_every_kind_of_misfire_is_in_every_family() -> None:
    for family in FAMILIES:
        assert {misfired(family, seed, size=(32, 16)).kind for seed in range(150)} == set(KINDS)

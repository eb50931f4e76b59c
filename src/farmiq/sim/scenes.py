"""Everything in the picture that is not the animal: camera, light, crate, floor, dirt, and what stands in the way.

The crate's inner width and the height of its walls are the same on every station. They are in every picture, so the picture
alone tells how large a metre is: a model gets no camera height beside it.

Three families of scenes share no camera height, light, floor, dirt or coat: training learns from the first, decisions are
made and the confidence is calibrated on the second, and the figures that we print come from the third."""

from dataclasses import dataclass

import numpy as np

from farmiq.sim import coats
from farmiq.sim.coats import Coat, Colour

CRATE_WIDTH_M = 0.60
CRATE_LENGTH_M = 1.70
WALL_HEIGHT_M = 0.90

Interval = tuple[float, float]


@dataclass(frozen=True)
class Camera:
    height_m: float = 2.4
    view_width_m: float = 2.5  # how much floor the picture shows from left to right
    distortion: float = -0.05  # below 0: straight lines bow outwards
    roll_degrees: float = 0.0
    offset_x_m: float = 0.0
    offset_y_m: float = 0.0
    blur: float = 0.6  # radius in pixels of a picture 640 wide
    noise: float = 0.02


@dataclass(frozen=True)
class Light:
    azimuth_degrees: float = 40.0
    elevation_degrees: float = 55.0
    strength: float = 1.0
    ambient: float = 0.5  # share of the light that comes from everywhere
    warmth: float = 0.0  # above 0 yellow, below 0 blue
    falloff: float = 0.15  # how much darker the far side of the picture is


@dataclass(frozen=True)
class Floor:
    kind: str = "concrete"
    seed: int = 0
    dirt: float = 0.2  # 0 washed, 1 covered
    straw: int = 20
    wall: Colour = (0.55, 0.57, 0.58)


@dataclass(frozen=True)
class Bar:
    """A tube over the crate, between camera and animal."""

    x_m: float
    radius_m: float
    turn_degrees: float = 0.0


@dataclass(frozen=True)
class Scene:
    camera: Camera = Camera()
    light: Light = Light()
    floor: Floor = Floor()
    bars: tuple[Bar, ...] = ()
    neighbour_seed: int | None = None  # another animal looks in at the end of the crate
    mud: float = 0.1  # on the animal itself, 0 to 1


@dataclass(frozen=True)
class Family:
    """From where the parameters of a scene are drawn. Each tuple of intervals is one set: the draw is even over all of it."""

    name: str
    camera_height_m: tuple[Interval, ...]
    # Mirrored in both ways a set falls on itself, so a training that mirrors its pictures stays in its family.
    light_azimuth_degrees: tuple[Interval, ...]
    light_strength: tuple[Interval, ...]
    dirt: tuple[Interval, ...]
    bar_radius_m: tuple[Interval, ...]
    floors: tuple[str, ...]
    coats: tuple[Coat, ...]
    invented: float = 0.0  # so much of the coats, and of the floors, is made up instead


TRAINING = Family(
    name="training",
    camera_height_m=((2.00, 2.30), (2.42, 2.60), (2.72, 3.00)),
    light_azimuth_degrees=((0.0, 60.0), (120.0, 240.0), (300.0, 360.0)),
    light_strength=((0.65, 0.85), (0.92, 1.05), (1.12, 1.35)),
    dirt=((0.0, 0.20), (0.28, 0.42), (0.50, 0.80)),
    bar_radius_m=((0.014, 0.020), (0.024, 0.032)),
    floors=("concrete", "plastic", "steel", "planks", "cobbles", "mesh"),
    coats=(coats.WHITE, coats.BLACK, coats.SPOTTED, coats.SADDLED, coats.GINGER, coats.STRIPED, coats.SWALLOW),
    invented=0.7,
)
VALIDATION = Family(
    name="validation",
    camera_height_m=((2.30, 2.36), (2.60, 2.66)),
    light_azimuth_degrees=((60.0, 72.0), (108.0, 120.0), (240.0, 252.0), (288.0, 300.0)),
    light_strength=((0.85, 0.885), (1.05, 1.085)),
    dirt=((0.20, 0.24), (0.42, 0.46)),
    bar_radius_m=((0.020, 0.022),),
    floors=("rubber", "bricks", "grating"),
    coats=(coats.BELTED, coats.BLUE, coats.RED, coats.POINTED),
)
UNSEEN = Family(
    name="unseen",
    camera_height_m=((1.92, 2.00), (2.36, 2.42), (2.66, 2.72), (3.00, 3.08)),
    light_azimuth_degrees=((72.0, 108.0), (252.0, 288.0)),
    light_strength=((0.55, 0.65), (0.885, 0.92), (1.085, 1.12), (1.35, 1.45)),
    dirt=((0.24, 0.28), (0.46, 0.50), (0.80, 0.90)),
    bar_radius_m=((0.022, 0.024), (0.032, 0.035)),
    floors=("herringbone", "gravel"),
    coats=(coats.QUARTERED, coats.ROAN, coats.HEREFORD),
)
FAMILIES = (TRAINING, VALIDATION, UNSEEN)
FLOORS = TRAINING.floors + VALIDATION.floors + UNSEEN.floors


def scene(family: Family, seed: int) -> Scene:
    rng = np.random.default_rng([seed, 4])
    return Scene(
        camera=_camera(family, rng),
        light=_light(family, rng),
        floor=_floor(family, rng),
        bars=_bars(family, rng),
        neighbour_seed=int(rng.integers(1 << 30)) if rng.random() < 0.2 else None,
        mud=draw(family.dirt, rng) * float(rng.uniform(0.2, 1.0)),
    )


def coat(family: Family, seed: int) -> Coat:
    rng = np.random.default_rng([seed, 5])
    if family.invented and rng.random() < family.invented:
        return coats.invented(seed)
    return family.coats[int(rng.integers(len(family.coats)))]


def draw(intervals: tuple[Interval, ...], rng: np.random.Generator) -> float:
    lengths = np.array([high - low for low, high in intervals])
    low, high = intervals[int(rng.choice(len(intervals), p=lengths / lengths.sum()))]
    return float(rng.uniform(low, high))


def _camera(family: Family, rng: np.random.Generator) -> Camera:
    return Camera(
        height_m=draw(family.camera_height_m, rng),
        view_width_m=float(rng.uniform(2.3, 2.8)),
        distortion=float(rng.uniform(-0.14, 0.02)),
        roll_degrees=float(rng.normal(0.0, 1.2)),
        offset_x_m=float(rng.normal(0.0, 0.03)),
        offset_y_m=float(rng.normal(0.0, 0.03)),
        blur=float(rng.uniform(0.3, 1.6)),
        noise=float(rng.uniform(0.005, 0.05)),
    )


def _light(family: Family, rng: np.random.Generator) -> Light:
    return Light(
        azimuth_degrees=draw(family.light_azimuth_degrees, rng),
        elevation_degrees=float(rng.uniform(38.0, 80.0)),
        strength=draw(family.light_strength, rng),
        ambient=float(rng.uniform(0.35, 0.75)),
        warmth=float(rng.normal(0.0, 0.06)),
        falloff=float(rng.uniform(0.0, 0.35)),
    )


def _floor(family: Family, rng: np.random.Generator) -> Floor:
    grey = float(rng.uniform(0.35, 0.75))
    tint = rng.normal(0.0, 0.015, 3)
    kind = family.floors[int(rng.integers(len(family.floors)))]
    return Floor(
        kind="invented" if family.invented and rng.random() < family.invented else kind,
        seed=int(rng.integers(1 << 30)),
        dirt=draw(family.dirt, rng),
        straw=int(rng.integers(0, 60)),
        wall=(grey + float(tint[0]), grey + float(tint[1]), grey + float(tint[2])),
    )


def _bars(family: Family, rng: np.random.Generator) -> tuple[Bar, ...]:
    count = int(rng.choice(3, p=(0.55, 0.30, 0.15)))
    return tuple(
        Bar(
            x_m=float(rng.uniform(-0.55, 0.55)),
            radius_m=draw(family.bar_radius_m, rng),
            turn_degrees=float(rng.normal(0.0, 8.0)),
        )
        for _ in range(count)
    )

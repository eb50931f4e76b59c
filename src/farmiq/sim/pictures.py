"""An animal in a scene, as a weigh station's camera sees it from above."""

import io
import math
from functools import lru_cache

import numpy as np
from PIL import Image, ImageFilter

from farmiq.sim.animals import Body, Pig, Pose, body, born, stance
from farmiq.sim.fences import Fence, fence
from farmiq.sim.figure import Figure, figure
from farmiq.sim.ground import ground
from farmiq.sim.scenes import CRATE_LENGTH_M, Bar, Camera, Floor, Light, Scene
from farmiq.sim.views import Colours, Plane, View, blurred, view

WIDTH, HEIGHT = 640, 480


def picture(
    pig: Pig, weight: float, pose: Pose, scene: Scene, seed: int, *, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> Image.Image:
    """`seed` is the grain of this one picture; everything else in it has a seed of its own."""
    return photograph(((pig, body(pig, weight), pose),), scene, seed, size=size)


def photograph(
    animals: tuple[tuple[Pig, Body, Pose], ...], scene: Scene, seed: int, *, size: tuple[int, int] = (WIDTH, HEIGHT)
) -> Image.Image:
    """Any number of animals, the later ones over the earlier ones: an empty crate is a picture too."""
    seen, floor, steel = _station(scene.camera, scene.floor, scene.light, scene.bars, size)
    colours = floor.copy()
    for pig, measures, pose in _neighbour(scene) + animals:
        drawn = figure(seen, pig, measures, pose, scene.light, scene.mud)
        if drawn is not None:
            _cast_shadow(colours, drawn, seen, scene.light)
            _lay_over(colours, drawn)
    steel.lay_over(colours)
    _illuminate(colours, seen, scene.light)
    return _expose(colours, scene.camera, seed)


@lru_cache(maxsize=2)
def _station(
    camera: Camera, floor: Floor, light: Light, bars: tuple[Bar, ...], size: tuple[int, int]
) -> tuple[View, Colours, Fence]:
    """What doesn't change from picture to picture: half of the work, and a station takes thousands of pictures."""
    seen = view(camera, *size)
    return seen, ground(seen, floor, light), fence(seen, light, bars)


def jpeg(image: Image.Image, quality: int = 88) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def _neighbour(scene: Scene) -> tuple[tuple[Pig, Body, Pose], ...]:
    """The next one in the queue: its head or its rump shows behind the gate."""
    if scene.neighbour_seed is None:
        return ()
    rng = np.random.default_rng([scene.neighbour_seed, 8])
    pig = born(scene.neighbour_seed)
    measures = body(pig, float(rng.uniform(25.0, 120.0)))
    end = 1.0 if rng.random() < 0.5 else -1.0
    reach = measures.length_m / 2 + measures.head_length_m * 1.2
    posed = stance(scene.neighbour_seed)
    at_x = end * (CRATE_LENGTH_M / 2 + reach - float(rng.uniform(-0.05, 0.12)))
    return ((pig, measures, Pose(at_x, posed.y_m, posed.heading_degrees, posed.bend_degrees)),)


def _cast_shadow(colours: Colours, drawn: Figure, seen: View, light: Light) -> None:
    """A sharp outline would give the game away: barn lamps are long, so shadows are soft."""
    silhouette = np.zeros(colours.shape[1:], np.float32)
    silhouette[drawn.box.rows, drawn.box.columns] = drawn.cover
    elevation, azimuth = math.radians(light.elevation_degrees), math.radians(light.azimuth_degrees)
    throw = drawn.height_m / math.tan(elevation) * seen.pixels_per_metre
    right, down = -round(throw * math.cos(azimuth)), -round(throw * math.sin(azimuth))
    soft = blurred(_moved(silhouette, right, down), 0.035 * seen.pixels_per_metre)
    beneath = blurred(silhouette, 0.07 * seen.pixels_per_metre)
    dimmed = 1 - np.float32((1 - light.ambient) * 0.75) * soft
    colours *= dimmed * (1 - np.float32(0.45) * beneath)


def _moved(mask: Plane, right: int, down: int) -> Plane:
    height, width = mask.shape
    moved = np.zeros_like(mask)
    if abs(right) < width and abs(down) < height:
        to_rows, from_rows = slice(max(0, down), height + min(0, down)), slice(max(0, -down), height - max(0, down))
        to_columns, from_columns = (
            slice(max(0, right), width + min(0, right)),
            slice(max(0, -right), width - max(0, right)),
        )
        moved[to_rows, to_columns] = mask[from_rows, from_columns]
    return moved


def _lay_over(colours: Colours, drawn: Figure) -> None:
    part = colours[:, drawn.box.rows, drawn.box.columns]
    part += drawn.cover * (drawn.colours - part)


def _illuminate(colours: Colours, seen: View, light: Light) -> None:
    azimuth = math.radians(light.azimuth_degrees)
    toward = seen.x * np.float32(math.cos(azimuth)) + seen.y * np.float32(math.sin(azimuth))
    lamp = np.array((1 + light.warmth, 1.0, 1 - light.warmth), np.float32)[:, None, None] * np.float32(light.strength)
    colours *= lamp * (1 + np.float32(light.falloff) * np.clip(toward, -1, 1))


def _expose(colours: Colours, camera: Camera, seed: int) -> Image.Image:
    rng = np.random.default_rng([seed, 9])
    # Noise and blur are given for a picture 640 wide; a smaller one is the mean of several of its pixels.
    scale = colours.shape[2] / WIDTH
    grain = rng.standard_normal(colours.shape[1:], dtype=np.float32)
    colours += grain * np.float32(camera.noise * min(1.0, scale))
    np.clip(colours, 0, 1, out=colours)
    image = Image.fromarray(np.ascontiguousarray((colours * np.float32(255)).astype(np.uint8).transpose(1, 2, 0)))
    return image.filter(ImageFilter.BoxBlur(camera.blur * scale)) if camera.blur > 0 else image

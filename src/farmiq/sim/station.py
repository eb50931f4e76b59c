"""A simulated weigh station: a herd that walks over a scale under a camera, one after the other, and grows from day to day.

The herd is one batch: all of an age, as a barn is filled. It comes at the age at which animals leave the nursery and goes when it
is grown up, which is what the model that comes with the package can weigh.

Camera and scale are two plug-ins that know nothing of each other. Both look at the same clock, and the same moment with the same
seed is the same animal. Nothing is kept: whoever starts the station anew finds the herd where it would have been.
"""

import math
import threading
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from functools import lru_cache
from typing import Annotated

import numpy as np
from msgspec import Meta

from farmiq.device.weighvision_agent.drivers.plugin import CameraPlugin, CameraTable, ScalePlugin, ScaleTable, Weight
from farmiq.kit.clock import Clock
from farmiq.sim.animals import Pig, Pose, body, born, stance, weight_kg
from farmiq.sim.coats import BLACK, GINGER, SADDLED, SPOTTED, WHITE
from farmiq.sim.pictures import jpeg, photograph
from farmiq.sim.scenes import CRATE_LENGTH_M, Camera, Floor, Light, Scene

FIRST_DAY, LAST_DAY = 70, 170  # of an animal's life at this station: then the batch is sold, and the next one comes
AGE_SPREAD_DAYS = 2.0
STEP_SECONDS = 1.2  # on to the scale, and off it
RESTLESS_SHARE = 0.05
_BEGINNING = date(2024, 1, 1)
# Most are white, and those who are not can be told apart by a person.
_COATS = (WHITE, WHITE, WHITE, WHITE, SPOTTED, GINGER, SADDLED, BLACK)
_JPEG_QUALITY = 82

HerdSize = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True)
class Herd:
    """`period_seconds` from one animal to the next, of which it stands on the scale for `stay_seconds`.

    A batch that `arrived_on` a day stays, at its last weight, when it is grown up; otherwise one batch follows the other."""

    seed: int
    size: int
    period_seconds: float
    stay_seconds: float
    day_seconds: float
    arrived_on: date | None = None


@dataclass(frozen=True)
class OnScale:
    pig: Pig
    weight_kg: float
    visit: int
    seconds: float  # since its first foot was on the plate
    stay_seconds: float
    is_restless: bool  # never stands still, and is not weighed

    @property
    def loaded(self) -> float:
        """How much of it is on the plate, 0 to 1."""
        return min(1.0, self.seconds / STEP_SECONDS, (self.stay_seconds - self.seconds) / STEP_SECONDS)


class HerdTable(ScaleTable, frozen=True, kw_only=True):
    seed: int = 1
    herd: HerdSize = 24
    period_seconds: Seconds = 60.0
    stay_seconds: Seconds = 25.0
    # Shorter than a real one, and the herd can be watched growing.
    day_seconds: Seconds = 86_400.0
    arrived_on: date | None = None
    readings_per_second: Annotated[float, Meta(gt=0, le=100)] = 10.0


class HerdCameraTable(CameraTable, frozen=True, kw_only=True):
    """Seed, herd and times have to be those of the scale, or the picture shows another animal than the one that is weighed."""

    seed: int = 1
    herd: HerdSize = 24
    period_seconds: Seconds = 60.0
    stay_seconds: Seconds = 25.0
    day_seconds: Seconds = 86_400.0
    arrived_on: date | None = None
    width: Annotated[int, Meta(ge=64, le=4096)] = 640
    height: Annotated[int, Meta(ge=48, le=4096)] = 480


def herd_of(table: HerdTable | HerdCameraTable) -> Herd:
    times = (table.period_seconds, table.stay_seconds, table.day_seconds)
    return Herd(table.seed, table.herd, *times, arrived_on=table.arrived_on)


def on_scale(herd: Herd, at: datetime) -> OnScale | None:
    """Who stands there at this moment; None between two animals."""
    visit, seconds = divmod(_seconds_since(_BEGINNING, at), herd.period_seconds)
    if seconds >= herd.stay_seconds:
        return None
    batch, days = batch_at(herd, at)
    pig, older_days = _member(herd.seed, int(visit) % herd.size, batch)
    weight = weight_kg(pig, FIRST_DAY + days + older_days)
    return OnScale(pig, weight, int(visit), seconds, herd.stay_seconds, _is_restless(herd.seed, int(visit)))


def batch_at(herd: Herd, at: datetime) -> tuple[int, float]:
    """A number for the batch that is there, and the days since it came."""
    stay_days = LAST_DAY - FIRST_DAY
    if herd.arrived_on is not None:
        days = _seconds_since(herd.arrived_on, at) / herd.day_seconds
        return herd.arrived_on.toordinal(), min(max(days, 0.0), float(stay_days))
    batch, days = divmod(_seconds_since(_BEGINNING, at) / herd.day_seconds, stay_days)
    return int(batch), days


def _seconds_since(day: date, at: datetime) -> float:
    return (at - datetime.combine(day, time(), UTC)).total_seconds()


@lru_cache(maxsize=256)
def _member(seed: int, place: int, batch: int) -> tuple[Pig, float]:
    """An animal of a batch, and by how many days it is older than the others."""
    rng = np.random.default_rng([seed, 21, place, batch])
    pig_seed, older_days = int(rng.integers(1 << 31)), float(rng.uniform(-AGE_SPREAD_DAYS, AGE_SPREAD_DAYS))
    return born(pig_seed, _COATS[pig_seed % len(_COATS)]), older_days


@lru_cache(maxsize=16)
def _is_restless(seed: int, visit: int) -> bool:
    return bool(np.random.default_rng([seed, 23, visit]).random() < RESTLESS_SHARE)


def shown_kg(animal: OnScale | None, rng: np.random.Generator) -> float:
    """What the indicator shows: an empty plate trembles a little, a living animal more."""
    if animal is None:
        return round(float(rng.normal(0.0, 0.03)), 2)
    settling = float(np.exp(-(animal.seconds - STEP_SECONDS) / 1.5)) if animal.seconds > STEP_SECONDS else 1.0
    sway = 0.04 if animal.is_restless else 0.0006 + 0.03 * settling
    return round(animal.weight_kg * animal.loaded * (1.0 + float(rng.normal(0.0, sway))), 2)


def station_scene(seed: int) -> Scene:
    """A station as a person would set it up: camera and lamp in order, a floor that is washed, nothing in the way."""
    rng = np.random.default_rng([seed, 26])
    return Scene(
        camera=Camera(height_m=float(rng.uniform(2.44, 2.58)), roll_degrees=float(rng.normal(0.0, 0.6)), noise=0.012),
        light=Light(azimuth_degrees=float(rng.uniform(20.0, 60.0)), ambient=0.6, warmth=float(rng.normal(0.0, 0.03))),
        floor=Floor(seed=int(rng.integers(1 << 30)), dirt=float(rng.uniform(0.08, 0.18)), straw=25),
        mud=0.08,
    )


def pose_of(herd: Herd, animal: OnScale) -> Pose:
    """It stays as it came, head first, and only shifts its weight and looks about."""
    came = stance(int(np.random.default_rng([herd.seed, 25, animal.visit]).integers(1 << 31)))
    rng = np.random.default_rng([herd.seed, 27, animal.visit, int(animal.seconds * 10)])
    is_coming = animal.seconds < animal.stay_seconds / 2
    ahead_m = CRATE_LENGTH_M * (1.0 - animal.loaded) * (-1.0 if is_coming else 1.0)
    heading = math.radians(came.heading_degrees)
    return replace(
        came,
        x_m=came.x_m + ahead_m * math.cos(heading) + float(rng.normal(0.0, 0.008)),
        y_m=came.y_m + ahead_m * math.sin(heading) + float(rng.normal(0.0, 0.004)),
        bend_degrees=came.bend_degrees + float(rng.normal(0.0, 2.0)),
        head_yaw_degrees=came.head_yaw_degrees + float(rng.normal(0.0, 7.0)),
    )


class SimulatedScale:
    def __init__(self, table: HerdTable, clock: Clock) -> None:
        self._herd = herd_of(table)
        self._clock = clock
        self._pause = threading.Event()
        self._gap_seconds = 1.0 / table.readings_per_second
        self._rng = np.random.default_rng([table.seed, 24])

    def read(self) -> list[Weight]:
        self._pause.wait(self._gap_seconds)
        return [Weight(self._clock.monotonic(), shown_kg(on_scale(self._herd, self._clock.now()), self._rng))]

    def close(self) -> None:
        self._pause.set()


class SimulatedCamera:
    def __init__(self, table: HerdCameraTable, clock: Clock) -> None:
        self._herd = herd_of(table)
        self._clock = clock
        self._size = (table.width, table.height)
        self._scene = station_scene(table.seed)

    def capture(self) -> bytes:
        at = self._clock.now()
        animal = on_scale(self._herd, at)
        grain = int(at.timestamp() * 1000) & 0x7FFFFFFF
        animals = (
            () if animal is None else ((animal.pig, body(animal.pig, animal.weight_kg), pose_of(self._herd, animal)),)
        )
        return jpeg(photograph(animals, self._scene, grain, size=self._size), _JPEG_QUALITY)

    def close(self) -> None:
        pass


SCALE = ScalePlugin(HerdTable, SimulatedScale)
CAMERA = CameraPlugin(HerdCameraTable, SimulatedCamera)

"""A simulated weigh station: a herd that walks over a scale under a camera, one after the other, and grows from day to day.

Camera and scale are two plug-ins that know nothing of each other. Both look at the same clock, and the same moment with the same
seed is the same animal. Nothing is kept: whoever starts the station anew finds the herd where it would have been.
"""

import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

import numpy as np
from msgspec import Meta

from farmiq.device.weighvision_agent.drivers.plugin import CameraPlugin, CameraTable, ScalePlugin, ScaleTable, Weight
from farmiq.kit.clock import Clock
from farmiq.sim.animals import Pig, body, born, stance, weight_kg
from farmiq.sim.pictures import jpeg, photograph
from farmiq.sim.scenes import UNSEEN, Scene, coat, scene

FIRST_DAY, LAST_DAY = 35, 165  # of an animal's life at this station: then it is sold, and another one takes its place
STEP_SECONDS = 1.2  # on to the scale, and off it
RESTLESS_SHARE = 0.1
_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)

HerdSize = Annotated[int, Meta(ge=1, le=10_000)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True)
class Herd:
    """`period_seconds` from one animal to the next, of which it stands on the scale for `stay_seconds`."""

    seed: int
    size: int
    period_seconds: float
    stay_seconds: float
    day_seconds: float


@dataclass(frozen=True)
class OnScale:
    pig: Pig
    weight_kg: float
    visit: int
    seconds: float  # since its first foot was on the plate
    stay_seconds: float
    is_restless: bool  # never stands still, and is not weighed

    @property
    def is_standing(self) -> bool:
        return STEP_SECONDS <= self.seconds <= self.stay_seconds - STEP_SECONDS


class HerdTable(ScaleTable, frozen=True, kw_only=True):
    seed: int = 1
    herd: HerdSize = 24
    period_seconds: Seconds = 60.0
    stay_seconds: Seconds = 25.0
    # Shorter than a real one, and the herd can be watched growing.
    day_seconds: Seconds = 86_400.0
    readings_per_second: Annotated[float, Meta(gt=0, le=100)] = 10.0


class HerdCameraTable(CameraTable, frozen=True, kw_only=True):
    """Seed, herd and times have to be those of the scale, or the picture shows another animal than the one that is weighed."""

    seed: int = 1
    herd: HerdSize = 24
    period_seconds: Seconds = 60.0
    stay_seconds: Seconds = 25.0
    day_seconds: Seconds = 86_400.0
    width: Annotated[int, Meta(ge=64, le=4096)] = 640
    height: Annotated[int, Meta(ge=48, le=4096)] = 480


def herd_of(table: HerdTable | HerdCameraTable) -> Herd:
    return Herd(table.seed, table.herd, table.period_seconds, table.stay_seconds, table.day_seconds)


def on_scale(herd: Herd, at: datetime) -> OnScale | None:
    """Who stands there at this moment; None between two animals."""
    elapsed = (at - _BEGINNING).total_seconds()
    visit, seconds = int(elapsed // herd.period_seconds), elapsed % herd.period_seconds
    if seconds >= herd.stay_seconds:
        return None
    place, day = visit % herd.size, int(elapsed // herd.day_seconds)
    rng = np.random.default_rng([herd.seed, 21, place])
    life_days = LAST_DAY - FIRST_DAY
    generation, age = divmod(day + int(rng.integers(life_days)), life_days)
    pig = _pig(int(np.random.default_rng([herd.seed, 22, place, generation]).integers(1 << 31)))
    is_restless = bool(np.random.default_rng([herd.seed, 23, visit]).random() < RESTLESS_SHARE)
    return OnScale(pig, weight_kg(pig, FIRST_DAY + age), visit, seconds, herd.stay_seconds, is_restless)


@lru_cache(maxsize=64)
def _pig(seed: int) -> Pig:
    return born(seed, coat(UNSEEN, seed))


def shown_kg(animal: OnScale | None, rng: np.random.Generator) -> float:
    """What the indicator shows: an empty plate trembles a little, a living animal more."""
    if animal is None:
        return round(float(rng.normal(0.0, 0.03)), 2)
    from_the_end = animal.stay_seconds - animal.seconds
    loaded = min(1.0, animal.seconds / STEP_SECONDS, from_the_end / STEP_SECONDS)
    settling = float(np.exp(-(animal.seconds - STEP_SECONDS) / 1.5)) if animal.seconds > STEP_SECONDS else 1.0
    sway = 0.04 if animal.is_restless else 0.0006 + 0.03 * settling
    return round(animal.weight_kg * loaded * (1.0 + float(rng.normal(0.0, sway))), 2)


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
        self._scene: Scene = scene(UNSEEN, table.seed)

    def capture(self) -> bytes:
        at = self._clock.now()
        animal = on_scale(self._herd, at)
        grain = int(at.timestamp() * 1000) & 0x7FFFFFFF
        animals = () if animal is None else ((animal.pig, body(animal.pig, animal.weight_kg), stance(grain)),)
        return jpeg(photograph(animals, self._scene, grain, size=self._size))

    def close(self) -> None:
        pass


SCALE = ScalePlugin(HerdTable, SimulatedScale)
CAMERA = CameraPlugin(HerdCameraTable, SimulatedCamera)

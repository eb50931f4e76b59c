"""A pig from birth on. It grows along a Gompertz curve of its own, and its body follows its weight.

Two pigs of one weight differ: one is long and narrow, the other short and broad (`stretch`), and one carries more of its
weight in the depth that a camera above it can't see (`fullness`). So no single measure of the picture tells the weight."""

import math
from dataclasses import dataclass

import numpy as np

from farmiq.sim.coats import COATS, Coat

# Shares of the live weight that are not trunk: head, legs, tail.
NOT_TRUNK = 0.13
DENSITY_KG_PER_M3 = 1030.0
# How much of the box length x width x depth a trunk fills, with the profiles of `figure`.
TRUNK_FILLS = 0.65


@dataclass(frozen=True)
class Pig:
    seed: int
    coat: Coat
    mature_kg: float
    rate_per_day: float
    inflection_days: float
    stretch: float  # above 0: long and narrow for its weight
    fullness: float  # above 0: broader from above, and less deep, than its weight says
    shoulder: float  # width at the shoulder against the ham
    head: float
    ear: float
    ear_droop: float  # 0 upright, 1 hanging
    tail_curl: float


@dataclass(frozen=True)
class Body:
    length_m: float  # rump to neck
    width_m: float
    depth_m: float  # belly to back
    back_height_m: float
    head_length_m: float
    head_width_m: float


@dataclass(frozen=True)
class Pose:
    x_m: float = 0.0  # along the crate, from its middle
    y_m: float = 0.0
    heading_degrees: float = 0.0  # 0 looks along the crate, 180 stands the other way round
    bend_degrees: float = 0.0
    head_yaw_degrees: float = 0.0
    head_lowered: float = 0.0  # 0 looks ahead, 1 sniffs the floor


def born(seed: int, coat: Coat | None = None) -> Pig:
    rng = np.random.default_rng([seed, 1])
    chosen = COATS[int(rng.integers(len(COATS)))]
    return Pig(
        seed=seed,
        coat=coat or chosen,
        mature_kg=_between(rng, 220.0, 14.0),
        rate_per_day=_between(rng, 0.0105, 0.0006),
        inflection_days=_between(rng, 139.0, 5.0),
        stretch=_between(rng, 0.0, 0.045),
        fullness=_between(rng, 0.0, 0.016),
        shoulder=_between(rng, 1.03, 0.035),
        head=_between(rng, 1.0, 0.05),
        ear=_between(rng, 1.0, 0.12),
        ear_droop=float(rng.uniform(0.0, 1.0)),
        tail_curl=float(rng.uniform(0.3, 1.0)),
    )


def weight_kg(pig: Pig, age_days: float) -> float:
    """The curve, and on top of it what it ate and drank that day: the same day always weighs the same."""
    curve = pig.mature_kg * math.exp(-math.exp(-pig.rate_per_day * (age_days - pig.inflection_days)))
    meals = np.random.default_rng([pig.seed, 2, max(0, int(age_days))]).normal(0.0, 0.006)
    return float(curve * (1.0 + float(np.clip(meals, -0.015, 0.015))))


def body(pig: Pig, weight: float) -> Body:
    length = 0.218 * weight**0.335 * math.exp(pig.stretch)
    width = 0.0705 * weight**0.337 * math.exp(pig.fullness - pig.stretch)
    trunk_m3 = weight * (1.0 - NOT_TRUNK) / DENSITY_KG_PER_M3
    depth = trunk_m3 / (TRUNK_FILLS * length * width)
    return Body(
        length_m=length,
        width_m=width,
        depth_m=depth,
        back_height_m=depth + 0.052 * weight**0.333,
        head_length_m=0.074 * weight**0.31 * pig.head,
        head_width_m=0.0450 * weight**0.315 * pig.head,
    )


def stance(seed: int, *, bend_degrees_max: float = 24.0) -> Pose:
    """How an animal stands on the scale: mostly along the crate, never still."""
    rng = np.random.default_rng([seed, 3])
    turned_round = 180.0 if rng.random() < 0.5 else 0.0
    bend = float(np.clip(rng.normal(0.0, bend_degrees_max / 2), -bend_degrees_max, bend_degrees_max))
    return Pose(
        x_m=float(rng.uniform(-0.08, 0.08)),
        y_m=float(rng.uniform(-0.05, 0.05)),
        heading_degrees=turned_round + float(np.clip(rng.normal(0.0, 4.0), -9.0, 9.0)),
        bend_degrees=bend,
        head_yaw_degrees=float(np.clip(bend * 0.6 + rng.normal(0.0, 14.0), -38.0, 38.0)),
        head_lowered=float(rng.beta(1.6, 2.2)),
    )


def _between(rng: np.random.Generator, mean: float, deviation: float) -> float:
    """Normal, but nobody is born more than two and a half deviations off."""
    return float(mean + deviation * np.clip(rng.normal(), -2.5, 2.5))

"""The simulated station: the herd grows, the scale settles, and the detector of a real station can weigh it."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
from PIL import Image

from farmiq.device.weighvision_agent.detection import Arrived, Change, Detector, Left, Steady
from farmiq.device.weighvision_agent.station_file import SessionTable
from farmiq.kit.clock import Clock
from farmiq.sim.animals import Pose
from farmiq.sim.station import (
    FIRST_DAY,
    LAST_DAY,
    Herd,
    HerdCameraTable,
    HerdTable,
    OnScale,
    SimulatedCamera,
    SimulatedScale,
    on_scale,
    pose_of,
    shown_kg,
)

HERD = Herd(seed=1, size=12, period_seconds=60.0, stay_seconds=25.0, day_seconds=86_400.0)
MORNING = datetime(2026, 5, 4, 6, tzinfo=UTC)


class Standing(Clock):
    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


def visit(number: int, day: int = 0) -> OnScale:
    """Half-way through the stay of one animal; the same numbers are the same animal on every day."""
    animal = on_scale(HERD, MORNING + timedelta(days=day, minutes=number, seconds=12))
    assert animal is not None
    return animal


def test_the_same_animal_comes_every_day_and_weighs_more() -> None:
    grown = []
    for number in range(HERD.size):
        weights = [visit(number, day) for day in range(0, LAST_DAY, 7)]
        for before, after in pairwise(weights):
            if before.pig == after.pig:
                grown.append(after.weight_kg / before.weight_kg)
    assert len(grown) > 10 * HERD.size
    assert min(grown) > 1.0
    assert np.mean(grown) > 1.03


def test_an_animal_grows_within_a_day_too_and_not_by_a_leap_at_midnight() -> None:
    evening, night, morning = (visit(0, day=0).weight_kg, visit(17 * 60, 0).weight_kg, visit(19 * 60, 0).weight_kg)
    assert evening < night
    assert abs(morning - night) < 0.035 * night, "a meal more or less"


def test_a_batch_is_of_one_age_and_makes_room_for_the_next() -> None:
    herds = [[visit(number, day) for number in range(HERD.size)] for day in range(0, 3 * LAST_DAY, 5)]
    assert 4 <= len({herd[0].pig.seed for herd in herds}) <= 6
    for herd in herds:
        weights = [animal.weight_kg for animal in herd]
        assert max(weights) < 1.9 * min(weights)
    assert 16.0 < min(animal.weight_kg for herd in herds for animal in herd) < 30.0
    assert 90.0 < max(animal.weight_kg for herd in herds for animal in herd) < 138.0


def test_a_batch_that_came_on_a_day_begins_young_and_stays_when_it_is_grown_up() -> None:
    herd = replace(HERD, arrived_on=MORNING.date())

    def at(days: float) -> OnScale:
        animal = on_scale(herd, MORNING + timedelta(days=days, seconds=12))
        assert animal is not None
        return animal

    stay_days = LAST_DAY - FIRST_DAY
    assert at(0).weight_kg < 36.0
    assert at(stay_days).weight_kg > 80.0
    # The visits go on in turn: after a whole number of rounds it is the same animal again.
    assert at(stay_days + 30).pig == at(0).pig
    assert at(stay_days + 30).weight_kg == at(stay_days + 60).weight_kg


def test_between_two_animals_the_scale_is_empty() -> None:
    assert on_scale(HERD, MORNING + timedelta(seconds=40)) is None
    assert abs(shown_kg(None, np.random.default_rng(1))) < 1.0


def test_a_real_detector_weighs_the_herd_and_only_those_who_stand_still() -> None:
    rng, detector = np.random.default_rng(5), Detector(SessionTable().rules(HerdTable(driver="simulated")))
    seen: list[tuple[Change, datetime]] = []
    for tenth in range(20 * 600):
        at = MORNING + timedelta(seconds=30 + tenth / 10)
        seen += [(change, at) for change in detector.look(tenth / 10, shown_kg(on_scale(HERD, at), rng))]
    weighed = [(change.weight_kg, on_scale(HERD, at)) for change, at in seen if isinstance(change, Steady)]
    assert sum(isinstance(change, Arrived) for change, _ in seen) in (19, 20)
    assert sum(isinstance(change, Left) for change, _ in seen) in (19, 20)
    assert len({animal.visit for _, animal in weighed if animal}) >= 14
    for kg, animal in weighed:
        assert animal is not None
        assert not animal.is_restless
        assert abs(kg - animal.weight_kg) < 0.02 * animal.weight_kg


def changed(before: bytes, after: bytes) -> float:
    """The share of pixels that differ by more than a tenth of what there is between black and white."""
    first, second = (np.asarray(Image.open(io.BytesIO(data)).convert("L"), float) for data in (before, after))
    return float((np.abs(first - second) > 25).mean())


def test_camera_and_scale_look_at_the_same_animal() -> None:
    clock = Standing(MORNING + timedelta(seconds=12))
    camera, scale = (
        SimulatedCamera(HerdCameraTable(driver="simulated"), clock),
        SimulatedScale(HerdTable(driver="simulated"), clock),
    )
    with_animal = camera.capture()
    (weight,) = scale.read()
    animal = on_scale(Herd(1, 24, 60.0, 25.0, 86_400.0), clock.at)
    assert animal is not None
    assert abs(weight.weight_kg - animal.weight_kg) < 0.2 * animal.weight_kg
    clock.at += timedelta(seconds=30)
    empty = camera.capture()
    clock.at += timedelta(seconds=1)
    still_empty = camera.capture()
    assert changed(with_animal, empty) > 0.02, "an animal covers a part of the floor"
    assert changed(empty, still_empty) < 0.001, "the camera's grain does not"
    scale.close()
    camera.close()


def test_an_animal_comes_head_first_stands_as_it_came_and_goes_on() -> None:
    def pose(seconds: float) -> Pose:
        animal = on_scale(HERD, MORNING + timedelta(seconds=seconds))
        assert animal is not None
        return pose_of(HERD, animal)

    coming, early, late, leaving = pose(0.3), pose(8), pose(16), pose(24.7)
    ahead = np.sign(np.cos(np.radians(early.heading_degrees)))
    assert {one.heading_degrees for one in (coming, early, late, leaving)} == {early.heading_degrees}
    assert abs(late.x_m - early.x_m) < 0.06
    assert early != late, "a living animal is never quite still"
    assert (early.x_m - coming.x_m) * ahead > 0.8
    assert (leaving.x_m - late.x_m) * ahead > 0.8

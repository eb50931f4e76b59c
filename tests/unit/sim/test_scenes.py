"""Three families of scenes that share nothing that training could learn by heart."""

from itertools import combinations

import pytest

from farmiq.sim.coats import ROAN, invented
from farmiq.sim.scenes import FAMILIES, TRAINING, UNSEEN, VALIDATION, Family, Interval, coat, draw, scene

RANGES = ("camera_height_m", "light_azimuth_degrees", "light_strength", "dirt", "bar_radius_m")


@pytest.mark.parametrize(("one", "other"), list(combinations(FAMILIES, 2)), ids=lambda family: family.name)
def test_two_families_share_no_parameter(one: Family, other: Family) -> None:
    for name in RANGES:
        ours: tuple[Interval, ...] = getattr(one, name)
        theirs: tuple[Interval, ...] = getattr(other, name)
        overlaps = [(a, b) for a in ours for b in theirs if max(a[0], b[0]) < min(a[1], b[1])]
        assert overlaps == [], name
    assert not set(one.floors) & set(other.floors)
    assert not {kind.name for kind in one.coats} & {kind.name for kind in other.coats}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_mirrored_picture_stays_in_its_family(family: Family) -> None:
    """Training mirrors pictures in both ways, which mirrors the light too."""
    lit = {round(low + step) % 360 for low, high in family.light_azimuth_degrees for step in range(1, int(high - low))}
    assert lit
    edges = {round(edge) % 360 for interval in family.light_azimuth_degrees for edge in interval}
    assert {(360 - angle) % 360 for angle in lit} <= lit | edges
    assert {(180 - angle) % 360 for angle in lit} <= lit | edges


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_scene_is_drawn_from_its_family(family: Family) -> None:
    for seed in range(200):
        drawn = scene(family, seed)
        assert any(low <= drawn.camera.height_m <= high for low, high in family.camera_height_m)
        assert any(low <= drawn.light.azimuth_degrees <= high for low, high in family.light_azimuth_degrees)
        assert any(low <= drawn.floor.dirt <= high for low, high in family.dirt)
        invented = ("invented",) if family.invented else ()
        assert drawn.floor.kind in family.floors + invented
        assert coat(family, seed).name in tuple(kind.name for kind in family.coats) + invented


def test_only_training_sees_coats_and_floors_that_are_made_up() -> None:
    assert [family.name for family in FAMILIES if family.invented] == ["training"]
    kinds = {coat(TRAINING, seed).name for seed in range(200)}
    assert kinds == {"invented", *(kind.name for kind in TRAINING.coats)}
    assert {scene(TRAINING, seed).floor.kind for seed in range(200)} == {"invented", *TRAINING.floors}


def test_no_two_made_up_coats_are_alike_and_none_has_the_markings_that_are_measured_on() -> None:
    coats = [invented(seed) for seed in range(1000)]
    assert len(set(coats)) == len(coats)
    assert {made.marking for made in coats} == {"plain", "patches", "stripes", "flanks"}
    measured_on = [kind for family in (VALIDATION, UNSEEN) for kind in family.coats]
    assert {kind.marking for kind in measured_on} == {"plain", "patches", "belt", "points", "halves"}
    assert max(made.grain for made in coats) < ROAN.grain
    assert ROAN in UNSEEN.coats


def test_the_same_seed_is_the_same_scene() -> None:
    assert scene(TRAINING, 3) == scene(TRAINING, 3)
    assert scene(TRAINING, 3) != scene(TRAINING, 4)
    assert scene(TRAINING, 3) != scene(UNSEEN, 3)


def test_a_draw_reaches_every_interval() -> None:
    import numpy as np

    rng = np.random.default_rng(1)
    values = [draw(((0.0, 1.0), (2.0, 3.0)), rng) for _ in range(200)]
    assert any(value <= 1 for value in values)
    assert any(value >= 2 for value in values)
    assert not any(1 < value < 2 for value in values)

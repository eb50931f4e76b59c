"""Pigs that grow, and bodies that follow the weight without being told by it alone."""

import numpy as np
import pytest

from farmiq.sim.animals import DENSITY_KG_PER_M3, NOT_TRUNK, TRUNK_FILLS, body, born, stance, weight_kg


def test_the_same_seed_is_the_same_animal() -> None:
    assert born(7) == born(7)
    assert born(7) != born(8)
    assert stance(7) == stance(7)
    assert weight_kg(born(7), 100) == weight_kg(born(7), 100)


@pytest.mark.parametrize("seed", range(20))
def test_an_animal_grows_from_week_to_week(seed: int) -> None:
    pig = born(seed)
    weights = [weight_kg(pig, age_days) for age_days in range(28, 183, 7)]
    assert weights == sorted(weights)
    assert 4 < weights[0] < 14
    assert 85 < weights[-1] < 150


def test_animals_of_one_age_differ() -> None:
    weights = np.array([weight_kg(born(seed), 150) for seed in range(200)])
    assert 0.04 < weights.std() / weights.mean() < 0.20


def test_the_trunk_holds_the_weight() -> None:
    for seed in range(30):
        for weight in (20.0, 60.0, 120.0):
            measures = body(born(seed), weight)
            litres = measures.length_m * measures.width_m * measures.depth_m * TRUNK_FILLS * 1000
            assert litres * DENSITY_KG_PER_M3 / 1000 == pytest.approx(weight * (1 - NOT_TRUNK))


def test_no_single_measure_tells_the_weight() -> None:
    """A hundred animals of 80 kg: neither the length nor the area from above is the same."""
    bodies = [body(born(seed), 80.0) for seed in range(100)]
    lengths = np.array([measures.length_m for measures in bodies])
    areas = np.array([measures.length_m * measures.width_m for measures in bodies])
    assert lengths.std() / lengths.mean() > 0.03
    assert 0.008 < areas.std() / areas.mean() < 0.03


def test_a_body_has_the_size_of_a_pig() -> None:
    bodies = [body(born(seed), 100.0) for seed in range(100)]
    assert 0.95 < np.mean([measures.length_m for measures in bodies]) < 1.10
    assert 0.28 < np.mean([measures.width_m for measures in bodies]) < 0.38
    assert 0.55 < np.mean([measures.back_height_m for measures in bodies]) < 0.75


def test_an_animal_fits_into_the_crate() -> None:
    from farmiq.sim.scenes import CRATE_LENGTH_M, CRATE_WIDTH_M

    for seed in range(100):
        measures = body(born(seed), 130.0)
        assert measures.length_m + measures.head_length_m * 0.9 < CRATE_LENGTH_M
        assert measures.width_m < CRATE_WIDTH_M * 0.8

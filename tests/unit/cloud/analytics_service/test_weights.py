import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.cloud.analytics_service.weights import vision_of, weights_of
from support.analytics_days import inference, session


def test_three_weights() -> None:
    found = weights_of([session(1, 120.0), session(2, 100.0), session(3, 110.0), session(4, None)])
    assert (found.sessions, found.animals_weighed) == (4, 3)
    assert (found.mean_kg, found.sd_kg) == (110.0, 10.0)
    assert found.cv == pytest.approx(10 / 110)
    assert (found.min_kg, found.median_kg, found.max_kg) == (100.0, 110.0, 120.0)
    assert (found.p10_kg, found.p25_kg, found.p75_kg, found.p90_kg) == (102.0, 105.0, 115.0, 118.0)
    assert found.uniformity == 1.0  # each within 11 kg of 110


def test_uniformity_is_the_share_within_a_tenth_of_the_mean() -> None:
    found = weights_of([session(number, kg) for number, kg in enumerate([80.0, 100.0, 100.0, 120.0])])
    assert found.mean_kg == 100.0
    assert found.uniformity == 0.5


def test_one_weight_has_no_spread_and_none_has_nothing() -> None:
    one = weights_of([session(1, 42.0)])
    assert (one.mean_kg, one.sd_kg, one.cv, one.uniformity) == (42.0, None, None, 1.0)
    none = weights_of([session(1, None), session(2, 0.0)])
    assert (none.sessions, none.animals_weighed, none.mean_kg) == (2, 0, None)


def test_a_session_without_a_final_weight_has_the_middle_of_what_the_scale_told() -> None:
    assert session(1, None, recorded_kg=(99.0, 101.0, 140.0)).weight_kg == 101.0
    assert session(1, 98.0, recorded_kg=(99.0, 101.0)).weight_kg == 98.0


def test_camera_against_scale() -> None:
    named = inference(1, 121.3, confidence=0.5)
    sessions = [
        session(1, 121.0, inferences=(named, inference(9, 200.0, 0.99)), inference_result_id=named.result_id),
        session(2, 100.0, inferences=(inference(2, 50.0, 0.3), inference(3, 98.0, 0.9))),
        session(3, None, inferences=(inference(4, 77.0),)),
        session(5, 100.0),
    ]
    found = vision_of(sessions)
    assert found is not None
    assert found.pairs == 2
    assert found.mean_error_kg == pytest.approx((0.3 - 2.0) / 2)
    assert found.mean_absolute_error_kg == pytest.approx((0.3 + 2.0) / 2)
    assert found.mean_absolute_percentage_error == pytest.approx((100 * 0.3 / 121 + 2.0) / 2)
    assert vision_of(sessions[2:]) is None


@given(st.lists(st.floats(0.1, 1500), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_weights_do_not_depend_on_their_order_and_keep_theirs(kilograms: list[float], shuffle: random.Random) -> None:
    sessions = [session(number, kg) for number, kg in enumerate(kilograms)]
    found = weights_of(sessions)
    shuffle.shuffle(sessions)
    assert weights_of(sessions) == found
    ordered = [found.min_kg, found.p10_kg, found.p25_kg, found.median_kg, found.p75_kg, found.p90_kg, found.max_kg]
    known = [kg for kg in ordered if kg is not None]
    assert len(known) == 7
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(known))
    assert found.uniformity is not None
    assert 0 <= found.uniformity <= 1

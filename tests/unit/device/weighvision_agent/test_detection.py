import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.device.weighvision_agent.detection import Arrived, Change, Detector, Left, Rules, Steady

RULES = Rules(detect_kg=5.0, stable_window_seconds=2.0, stable_tolerance_kg=0.5, max_kg=300.0, silent_seconds=5.0)
HERTZ = 10


def play(*weights: float, detector: Detector | None = None, start: float = 0.0, **said: bool) -> list[Change]:
    """One weight every tenth of a second."""
    detector = detector or Detector(RULES)
    return [change for at, kg in enumerate(weights) for change in detector.look(start + at / HERTZ, kg, **said)]


EMPTY = [0.0] * 10


def standing(kg: float, seconds: float, noise_kg: float = 0.0, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [kg + rng.uniform(-noise_kg, noise_kg) for _ in range(int(seconds * HERTZ))]


def test_an_animal_comes_is_weighed_and_leaves() -> None:
    changes = play(*EMPTY, *standing(80.0, 3), *EMPTY)
    assert changes == [Arrived(), Steady(80.0), Left()]


def test_noise_within_the_tolerance_is_weighed_at_its_middle() -> None:
    changes = play(*EMPTY, *standing(80.0, 10, noise_kg=0.2), *EMPTY)
    assert [type(change) for change in changes] == [Arrived, Steady, Left]
    assert isinstance(changes[1], Steady)
    assert abs(changes[1].weight_kg - 80.0) <= 0.2


def test_noise_above_the_tolerance_is_never_stable() -> None:
    assert play(*EMPTY, *standing(80.0, 20, noise_kg=1.0), *EMPTY) == [Arrived(), Left()]


def test_an_animal_that_steps_off_half_way_is_not_weighed() -> None:
    climbing = [kg / 2 for kg in range(160)]
    assert play(*EMPTY, *climbing, *reversed(climbing), *EMPTY) == [Arrived(), Left()]


def test_half_an_animal_that_stands_still_and_then_wholly_is_weighed_once() -> None:
    """The front feet alone are a weight too. What is too far from the first is not taken for the same animal."""
    changes = play(*EMPTY, *standing(40.0, 3), *standing(80.0, 3), *EMPTY)
    assert changes == [Arrived(), Steady(40.0), Left()]


def test_a_creeping_weight_is_not_stable_although_the_window_holds_it() -> None:
    """0.45 kg in two seconds: within the tolerance, and on its way."""
    creeping = [80.0 + 0.0225 * step for step in range(200)]
    assert play(*EMPTY, *creeping) == [Arrived()]


def test_two_animals_are_too_heavy_to_be_one() -> None:
    assert play(*EMPTY, *standing(310.0, 5), *EMPTY) == [Arrived(), Left()]


def test_what_stands_there_from_the_beginning_has_to_leave_first() -> None:
    assert play(*standing(80.0, 10), *EMPTY, *standing(81.0, 3)) == [Arrived(), Steady(81.0)]


def test_a_jump_does_not_make_two_animals_of_one() -> None:
    jump = [0.0] * 4
    changes = play(*EMPTY, *standing(80.0, 3), *jump, *standing(80.0, 3), *EMPTY)
    assert changes == [Arrived(), Steady(80.0), Left()]


def test_a_second_weight_of_the_same_animal_is_told_when_it_differs() -> None:
    changes = play(*EMPTY, *standing(80.0, 3), *standing(81.5, 3), *EMPTY)
    assert changes == [Arrived(), Steady(80.0), Steady(81.5), Left()]


def test_the_scale_says_itself_that_it_is_moving() -> None:
    detector = Detector(RULES)
    play(*EMPTY, detector=detector)
    assert play(*standing(80.0, 5), detector=detector, start=2.0, is_moving=True) == [Arrived()]


def test_a_silent_scale_is_no_stable_one() -> None:
    detector = Detector(RULES)
    play(*EMPTY, detector=detector)
    sparse = [change for at in (2.0, 4.5, 7.0, 9.5) for change in detector.look(at, 80.0)]
    assert sparse == [Arrived()]


def after_silence(seconds: float, *weights: float) -> list[Change]:
    """An animal of 80 kg was weighed, and then the cable was out for so long."""
    detector = Detector(RULES)
    assert play(*EMPTY, *standing(80.0, 3), detector=detector) == [Arrived(), Steady(80.0)]
    return play(*weights, detector=detector, start=3.9 + seconds)


def test_who_stands_there_after_an_outage_is_not_taken_for_the_one_before_and_the_next_is_weighed() -> None:
    changes = after_silence(5.1, *standing(84.0, 3), *EMPTY, *standing(90.0, 3), *EMPTY)
    assert changes == [Left(), Arrived(), Steady(90.0), Left()]


def test_a_plate_that_is_empty_after_an_outage_is_ready_at_once() -> None:
    assert after_silence(60.0, 0.0, *standing(90.0, 3)) == [Left(), Arrived(), Steady(90.0)]


def test_a_pause_that_the_scale_may_make_changes_nothing() -> None:
    assert after_silence(4.9, *standing(80.0, 3), *EMPTY) == [Left()]


def test_who_comes_to_an_empty_plate_during_an_outage_is_weighed() -> None:
    detector = Detector(RULES)
    play(*EMPTY, detector=detector)
    assert play(*standing(80.0, 3), detector=detector, start=60.0) == [Arrived(), Steady(80.0)]


@pytest.mark.parametrize("kg", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_passed_over(kg: float) -> None:
    detector = Detector(RULES)
    play(*EMPTY, detector=detector)
    assert detector.look(2.0, kg) == []
    assert detector.look(2.1, 80.0) == [Arrived()]


@given(st.lists(st.tuples(st.floats(0.01, 1.0) | st.just(6.0), st.floats(-50, 500)), max_size=400), st.integers(0, 5))
def test_whatever_the_scale_says_animals_come_and_go_in_turn(steps: list[tuple[float, float]], seed: int) -> None:
    detector, at, is_there, weighed = Detector(RULES), 0.0, False, 0
    for gap_seconds, kg in steps:
        at += gap_seconds
        for change in detector.look(at, kg):
            match change:
                case Arrived():
                    assert not is_there
                    is_there, weighed = True, 0
                case Left():
                    assert is_there
                    is_there = False
                case Steady(weight_kg):
                    assert is_there
                    weighed += 1
                    assert RULES.detect_kg <= weight_kg <= RULES.max_kg
        assert detector.is_occupied == is_there

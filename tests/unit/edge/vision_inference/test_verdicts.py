import math

import pytest

from farmiq.edge.vision_inference.engine import EngineAway, EngineDied, ModelFailed
from farmiq.edge.vision_inference.seen import AnswerUnusable, Seen, seen_of
from farmiq.edge.vision_inference.verdicts import (
    PAUSE_SECONDS_MAX,
    Again,
    BytesChanged,
    GivenUp,
    ModelNotAtWork,
    after_lease,
    judge,
    trouble_of,
)
from farmiq.kit.pictures import NotAPicture, TooManyPixels
from farmiq.kit.s3 import BucketMissing, ObjectMissing, ObjectTooLarge, StoreAway, StoreRefused


@pytest.mark.parametrize("kind", [StoreAway, StoreRefused, BucketMissing, EngineAway])
def test_what_says_nothing_about_the_picture_costs_it_nothing(kind: type[Exception]) -> None:
    verdict = judge(kind("away"), 5, 5)
    assert isinstance(verdict, Again)
    assert verdict.is_free


@pytest.mark.parametrize(
    "kind", [NotAPicture, TooManyPixels, BytesChanged, ObjectTooLarge, ModelNotAtWork, AnswerUnusable]
)
def test_what_would_be_the_same_again_is_given_up_at_once(kind: type[Exception]) -> None:
    assert judge(kind("never"), 1, 5) == GivenUp()


@pytest.mark.parametrize("kind", [EngineDied, ModelFailed, ObjectMissing, KeyError])
def test_what_may_have_been_an_accident_is_tried_with_growing_pauses_and_a_limit(kind: type[Exception]) -> None:
    verdicts = [judge(kind("oh"), attempt, 4) for attempt in range(1, 5)]
    assert verdicts == [Again(1.0, False), Again(2.0, False), Again(4.0, False), GivenUp()]
    assert judge(kind("oh"), 30, 100) == Again(PAUSE_SECONDS_MAX, False)


def test_a_lost_lease_is_an_attempt() -> None:
    assert after_lease(1, 2) == Again(0.0, False)
    assert after_lease(2, 2) == GivenUp()


def test_trouble_has_a_code_whatever_it_is() -> None:
    assert trouble_of(NotAPicture("x")).code == "not_a_picture"
    assert trouble_of(KeyError("x")).code == "internal_error"


def test_what_a_model_says_is_told_as_it_is() -> None:
    assert seen_of({"weight_kg": 0.5, "confidence": 0.001}) == Seen(0.5, 0.001)
    assert seen_of({"weight_kg": 80.0, "confidence": 1.0000001, "predicted_size": "M"}) == Seen(80.0, 1.0, "M")


@pytest.mark.parametrize(
    "change",
    [
        {"weight_kg": math.nan},
        {"weight_kg": math.inf},
        {"weight_kg": -0.1},
        {"weight_kg": 100_001.0},
        {"weight_kg": "80"},
        {"confidence": math.nan},
        {"confidence": 1.01},
        {"confidence": -0.01},
        {"predicted_size": 3.0},
        {"predicted_size": "x" * 65},
        {"predicted_size": "a\x00"},
    ],
)
def test_what_is_no_weight_and_no_confidence_is_not_told(change: dict[str, float | str]) -> None:
    answers: dict[str, float | str] = {"weight_kg": 80.0, "confidence": 0.5}
    with pytest.raises(AnswerUnusable):
        seen_of(answers | change)

"""What happened in a session, and how well scale and camera agree."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from farmiq.console.weighings.answers import (
    CloudPictures,
    CloudSession,
    CloudView,
    EdgeDetail,
    EdgePicture,
    EdgeSession,
    Missing,
    PictureCounts,
    Result,
    Weight,
)
from farmiq.console.weighings.cards import card_of_cloud, card_of_edge, lacks_of
from farmiq.console.weighings.story import agreement, chart_of, compared, facts_of, steps_of

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
SESSION, FIRST, SECOND = UUID(int=1), UUID(int=11), UUID(int=12)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def edge_session(**changed: Any) -> EdgeSession:
    fields: dict[str, Any] = {
        "id": SESSION, "farm_id": "farm-1", "barn_id": "barn-1", "device_id": "station-1", "batch_id": "batch-1",
        "status": "finalized", "is_complete": True, "is_finalized_by_hand": False, "incomplete_since": None,
        "missing": Missing(), "pictures": PictureCounts(2, 2), "start_at": at(0), "end_at": at(5), "final_weight_kg": 100.0,
        "inference_result_id": UUID(int=21), "first_heard_at": at(0.2), "last_heard_at": at(6),
    }  # fmt: skip
    return EdgeSession(**fields | changed)


def result(number: int, predicted_kg: float | None, seconds: float, media_id: UUID | None = FIRST) -> Result:
    return Result(
        id=UUID(int=number), media_id=media_id, predicted_weight_kg=predicted_kg, confidence=0.9, model_version="v1",
        occurred_at=at(seconds),
    )  # fmt: skip


def detail(**changed: Any) -> EdgeDetail:
    pictures = [
        EdgePicture(media_id=FIRST, where="stored", captured_at=at(1), stored_at=at(2)),
        EdgePicture(media_id=SECOND, where="stored", captured_at=at(3), stored_at=at(4)),
    ]
    results = [result(21, 102.0, 3), result(22, 97.0, 6, SECOND)]
    return EdgeDetail(edge_session(**changed), [Weight(at(2), 99.0), Weight(at(0.5), 98.0)], pictures, results, [])


def cloud_session(**changed: Any) -> CloudSession:
    fields: dict[str, Any] = {
        "id": SESSION, "barn_id": "barn-1", "device_id": "station-1", "batch_id": None, "status": "finalized",
        "start_at": at(0), "end_at": at(5), "final_weight_kg": 100.0, "cancel_reason": None, "image_count": 2,
        "inference_result_id": None, "first_event_at": at(0), "weights": 1, "images_announced": 2,
    }  # fmt: skip
    return CloudSession(**fields | changed)


def cloud_view(**changed: Any) -> CloudView:
    results = [result(21, 102.0, 3)]
    return CloudView(cloud_session(**changed), [Weight(at(2), 99.0)], results, CloudPictures([]), at(1), at(9))


def test_the_edge_is_believed_where_it_answers_and_the_cloud_where_it_does_not() -> None:
    both = facts_of(detail(), cloud_view(final_weight_kg=1.0))
    assert both is not None
    assert (both.final_weight_kg, both.batch_id) == (100.0, "batch-1")
    alone = facts_of(None, cloud_view(cancel_reason="it left", status="cancelled"))
    assert alone is not None
    assert (alone.status, alone.cancel_reason, alone.expected) == ("cancelled", "it left", 2)
    assert facts_of(None, None) is None


def test_steps_are_told_in_the_order_of_time_with_the_delay_of_each() -> None:
    facts = facts_of(detail(), cloud_view())
    assert facts is not None
    steps = steps_of(facts, detail(), cloud_view())
    assert [(step.title, step.delay_seconds) for step in steps] == [
        ("Created", None),
        ("Heard of by the edge", 0.2),
        ("First heard of in the cloud", 0.8),
        ("Last weight", 1.0),
        ("Last picture taken", 1.0),
        ("Last picture in the edge", 1.0),
        ("Finalized", 1.0),
        ("Last word of a model", 1.0),
        ("Last changed in the cloud", 3.0),
    ]


def test_what_has_not_happened_comes_last_and_has_no_time() -> None:
    facts = facts_of(detail(status="created", end_at=None), None)
    assert facts is not None
    steps = steps_of(facts, detail(status="created", end_at=None), None)
    assert [step.title for step in steps if step.at is None] == [
        "Finalized",
        "First heard of in the cloud",
        "Last changed in the cloud",
    ]
    assert steps[-1].at is None


def test_each_prediction_is_compared_with_the_scale() -> None:
    facts = facts_of(detail(), None)
    assert facts is not None
    results = compared(facts)
    assert (results[FIRST][0].error_kg, results[FIRST][0].error_percent, results[FIRST][0].is_chosen) == (
        2.0,
        2.0,
        True,
    )
    assert (results[SECOND][0].error_kg, results[SECOND][0].is_chosen) == (-3.0, False)
    assert agreement(results) == (-0.5, -0.5)


def test_without_a_weight_nothing_is_compared() -> None:
    facts = facts_of(detail(final_weight_kg=None), None)
    assert facts is not None
    results = compared(facts)
    assert results[FIRST][0].error_kg is None
    assert agreement(results) is None


def test_a_prediction_stands_in_the_chart_where_its_picture_was_taken() -> None:
    facts = facts_of(detail(), None)
    assert facts is not None
    chart = chart_of(facts, {FIRST: at(1), SECOND: at(3)})
    lines = {line.label: line for line in chart.lines}
    assert lines["camera"].at == [at(1).timestamp(), at(3).timestamp()]
    assert lines["scale"].values == [98.0, 99.0]
    assert lines["final weight"].values == [100.0, 100.0]


def test_a_session_of_which_nothing_is_known_but_its_name_has_an_empty_chart() -> None:
    empty = EdgeDetail(edge_session(start_at=None, end_at=None, final_weight_kg=None), [], [], [], [])
    facts = facts_of(empty, None)
    assert facts is not None
    chart = chart_of(facts, {})
    assert (chart.lines, chart.summary) == ([], "Nothing was weighed.")


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({}, "good", "complete"),
        ({"is_finalized_by_hand": True}, "good", "complete, closed by hand"),
        ({"status": "cancelled"}, "none", "cancelled"),
        ({"is_complete": False, "missing": Missing(pictures=1)}, "busy", "waits for 1 picture"),
        ({"is_complete": False, "incomplete_since": START, "missing": Missing(weight=True, pictures=2)}, "bad",
         "incomplete: a weight, 2 pictures missing"),
        ({"is_complete": False, "status": "created", "missing": Missing(finalized=True)}, "busy", "waits for its end"),
    ],
)  # fmt: skip
def test_a_card_says_what_the_edge_knows(changed: dict[str, Any], kind: str, said: str) -> None:
    card = card_of_edge(edge_session(**changed), {SESSION})
    assert (card.kind, card.state, card.is_in_cloud) == (kind, said, True)


def test_whether_the_cloud_has_a_session_may_be_unknown() -> None:
    assert card_of_edge(edge_session(), None).is_in_cloud is None
    assert card_of_edge(edge_session(), set()).is_in_cloud is False
    assert lacks_of(edge_session()) == []


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "good"),
        ({"images_announced": 1}, "warn"),
        ({"status": "created"}, "busy"),
        ({"status": "cancelled"}, "none"),
    ],
)
def test_a_card_says_what_the_cloud_knows(changed: dict[str, Any], kind: str) -> None:
    assert card_of_cloud(cloud_session(**changed)).kind == kind

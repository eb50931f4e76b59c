from datetime import timedelta

import pytest

from farmiq.cloud.analytics_service.anomalies.found import EVIDENCE_ROWS_MAX, Anomaly, AnomalyLimits
from farmiq.cloud.analytics_service.anomalies.weighed import weight_anomalies
from farmiq.cloud.analytics_service.inputs import Session, Weighing
from support.analytics_days import DAY, DAY_END, DAY_START, UTC_CALENDAR, inference, session, weighings

LIMITS = AnomalyLimits()


def judged(sessions: list[Session], earlier: list[Weighing]) -> list[Anomaly]:
    today = [Weighing("b1", DAY, one.weight_kg) for one in sessions if one.weight_kg is not None]
    return weight_anomalies(UTC_CALENDAR, DAY, "b1", sessions, [*earlier, *today], LIMITS)


def growing() -> list[Weighing]:
    """A kilogram a day, five animals a day within two kilograms."""
    return weighings(
        {before: [100.0 - before + step for step in (-1.0, -0.5, 0.0, 0.5, 1.0)] for before in range(1, 11)}
    )


def test_a_weight_off_the_line_is_told_with_its_limits() -> None:
    sessions = [session(1, 100.0), session(2, 100.5), session(3, 131.0)]
    (found,) = judged(sessions, growing())
    assert (found.kind, found.batch_id, found.severity) == ("weight_outlier", "b1", "critical")
    (row,) = found.evidence
    assert (row.session_id, row.value) == (sessions[2].session_id, 131.0)
    # The line says 100 kg. The spread is 1.4826 * 0.5 kg, less than a hundredth of that: 4 * 1 kg on both sides.
    assert row.lower == pytest.approx(96.0, abs=0.2)
    assert row.upper == pytest.approx(104.0, abs=0.2)
    assert found.start_at == found.end_at == sessions[2].finalized_at
    assert "1 session of 3" in found.explanation
    assert "131 kg" in found.explanation


def test_a_few_weights_make_no_line() -> None:
    earlier = weighings({1: [100.0, 101.0]})
    assert [one.kind for one in judged([session(1, 100.0), session(2, 140.0)], earlier)] == []


def test_a_batch_without_outliers_is_quiet() -> None:
    assert judged([session(number, 99.5 + number / 10) for number in range(10)], growing()) == []


def test_a_jump_within_a_session() -> None:
    sessions = [
        session(1, 100.0, initial_kg=99.0, recorded_kg=(98.0, 101.0)),
        session(2, 100.0, initial_kg=55.0, recorded_kg=(100.0,)),
        session(3, 100.0, recorded_kg=(100.0, 0.0, 116.0)),  # an empty scale says nothing
    ]
    (found,) = judged(sessions, growing())
    assert found.kind == "weight_jump"
    assert [(row.value, row.lower, row.upper) for row in found.evidence] == [(55.0, 85.0, 115.0), (116.0, 85.0, 115.0)]
    assert found.severity == "critical"


def test_camera_and_scale_disagree() -> None:
    sessions = [
        session(number, 100.0, inferences=(inference(number, 100.0 + (20.0 if number == 7 else 5.0)),))
        for number in range(10)
    ]
    (found,) = judged(sessions, growing())
    assert (found.kind, found.severity) == ("vision_disagreement", "warning")
    (row,) = found.evidence
    assert (row.value, row.lower, row.upper) == (120.0, 85.0, 115.0)
    assert "scale 100 kg" in row.note


def test_a_dirty_camera_is_one_anomaly_with_the_worst_rows() -> None:
    sessions = [session(number, 100.0, inferences=(inference(number, 30.0 + number / 10),)) for number in range(80)]
    (found,) = judged(sessions, growing())
    assert found.severity == "critical"
    assert found.evidence_count == 80
    assert len(found.evidence) == EVIDENCE_ROWS_MAX
    assert found.evidence[0].value == 30.0
    assert "80 sessions of 80" in found.explanation


def test_a_batch_that_doubles_over_night() -> None:
    earlier = weighings({2: [50.0, 50.0, 52.0]})
    (found,) = judged([session(1, 110.0), session(2, 112.0)], earlier)
    assert (found.kind, found.severity) == ("batch_jump", "critical")
    assert (found.start_at, found.end_at) == (DAY_START, DAY_END)
    before, now = found.evidence
    assert (before.value, before.at) == (50.0, DAY_START - timedelta(days=2))
    assert now.value == 111.0
    assert now.upper == pytest.approx(50 * 1.25**2)
    assert now.lower == pytest.approx(50 / 1.25**2)
    assert judged([session(1, 60.0)], earlier) == []

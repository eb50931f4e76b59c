from datetime import timedelta

import numpy as np
import pytest

from farmiq.cloud.analytics_service.anomalies.drift import drifts
from farmiq.cloud.analytics_service.anomalies.dropout import dropouts
from farmiq.cloud.analytics_service.anomalies.flat import flat_lines
from farmiq.cloud.analytics_service.anomalies.found import Anomaly, AnomalyLimits, runs
from farmiq.cloud.analytics_service.anomalies.unusual import unusual_values, usual_hours
from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.inputs import Heard, Loss, Series, SeriesHours
from support.analytics_days import (
    AFTERWARDS,
    DAY_END,
    DAY_START,
    Value,
    hours,
    series,
    steady,
    tracks,
    window,
)

LIMITS = AnomalyLimits()


def silent(*gone: int, otherwise: Value | None = None) -> Value:
    """No sample in these hours of the day itself."""
    value = otherwise or steady()
    return lambda day, hour: None if day == DAYS_BEFORE and hour in gone else value(day, hour)


def unusual(rows: list[SeriesHours]) -> list[Anomaly]:
    return unusual_values(window(), tracks(rows), LIMITS)


def dropped(
    rows: list[SeriesHours], heard: dict[Series, Heard] | None = None, losses: list[Loss] | None = None
) -> list[Anomaly]:
    return dropouts(window(), tracks(rows), heard or {}, losses or [], LIMITS, AFTERWARDS)


def test_runs_of_flags() -> None:
    assert runs(np.array([True, False, True, True, False, True])) == [(0, 0), (2, 3), (5, 5)]
    assert runs(np.array([False, False])) == []


def test_the_usual_value_of_an_hour_is_by_hand() -> None:
    # 14 days: 1 .. 14 in hour 0, 5 in hour 1. Median 7.5; the distances from it are 0.5 .. 6.5 twice, their median 3.5.
    rows = tracks([hours(series(), lambda day, hour: day + 1.0 if hour == 0 else 5.0 if hour == 1 else None)])
    usual, spreads, days = usual_hours(window(), rows[0].mean)
    assert (usual[0], usual[1]) == (7.5, 5.0)
    assert spreads[0] == pytest.approx(1.4826 * 3.5)
    # Hour 1 never moved: it has the spread of both hours together, half of whose 28 distances are 0.
    assert spreads[1] == pytest.approx(1.4826 * (0 + 0.5) / 2)
    assert days[:3].tolist() == [14, 14, 0]


def test_a_value_that_is_usual_at_noon_is_unusual_at_night() -> None:
    def value(day: int, hour: int) -> float:
        by_day = 10.0 + (15.0 if 8 <= hour < 20 else 0.0) + 0.1 * ((day + hour) % 3)
        return 25.0 if day == DAYS_BEFORE and hour == 3 else by_day

    (found,) = unusual([hours(series(), value)])
    assert found.kind == "unusual_value"
    assert found.severity == "critical"
    assert (found.start_at, found.end_at) == (DAY_START + timedelta(hours=3), DAY_START + timedelta(hours=4))
    assert found.evidence_count == 1
    (row,) = found.evidence
    assert row.value == 25.0
    assert row.lower is not None
    assert row.upper is not None
    assert 9 < row.lower < 10.1 < row.upper < 11
    assert "25 C" in found.explanation
    assert "03:00" in found.explanation


def test_an_ordinary_day_has_nothing_unusual() -> None:
    assert unusual([hours(series(), steady())]) == []


def test_a_new_series_is_not_judged_before_it_has_days_to_compare() -> None:
    assert unusual([hours(series(), lambda day, _hour: 90.0 if day == DAYS_BEFORE else None)]) == []
    young = DAYS_BEFORE - LIMITS.usual_days_min + 1
    rows = [hours(series(), lambda day, _hour: (90.0 if day == DAYS_BEFORE else 20.0) if day >= young else None)]
    assert unusual(rows) == []


def test_a_sensor_that_stood_still_is_a_flat_line() -> None:
    def value(day: int, hour: int) -> float:
        return 21.5 if day == DAYS_BEFORE and hour >= 10 else steady()(day, hour)

    stuck = hours(series(), value)
    lows = [mean if mean == 21.5 else mean - 0.5 for mean in stuck.means]
    rows = [
        SeriesHours(
            stuck.series,
            stuck.hours,
            stuck.means,
            lows,
            [*map(lambda m, w: m + (m - w), stuck.means, lows)],
            stuck.counts,
        )
    ]
    (found,) = flat_lines(window(), tracks(rows), LIMITS, AFTERWARDS)
    assert found.kind == "flat_line"
    assert found.start_at == DAY_START + timedelta(hours=11)  # in the hour from 10 it still came to where it stayed
    assert found.end_at == DAY_END
    assert found.evidence_count == 13
    assert "21.5 C" in found.explanation
    (open_,) = flat_lines(window(), tracks(rows), LIMITS, DAY_END - timedelta(minutes=1))
    assert open_.end_at is None


def test_a_switch_stands_still_by_nature() -> None:
    rows = [hours(series(metric="door"), lambda _day, hour: float(hour >= 12), half_width=0.0)]
    assert flat_lines(window(), tracks(rows), LIMITS, AFTERWARDS) == []


def test_a_short_stand_is_no_flat_line() -> None:
    def value(day: int, hour: int) -> float:
        return 21.5 if day == DAYS_BEFORE and 10 <= hour < 10 + LIMITS.flat_hours else steady()(day, hour)

    rows = [hours(series(), value, half_width=0.0)]
    assert flat_lines(window(), tracks(rows), LIMITS, AFTERWARDS) == []


def test_a_series_that_falls_silent_is_told_with_the_last_thing_it_said() -> None:
    last = Heard(DAY_START + timedelta(hours=9, minutes=41), 20.25)
    rows = [hours(series(), silent(10, 11, 12)), hours(series(sensor="t2"), steady())]
    (found,) = dropped(rows, {series(): last})
    assert (found.kind, found.severity, found.sensor) == ("dropout", "warning", "t1")
    # The hour from 9 is there to its end, so its aggregate knows more than what was heard.
    assert found.start_at == DAY_START + timedelta(hours=10)
    assert found.end_at == DAY_START + timedelta(hours=13)
    (row,) = found.evidence
    assert (row.value, row.sensor) == (20.25, "t1")
    assert "3 hours" in found.explanation
    assert "20.25 C" in found.explanation


def test_a_silent_device_is_told_once() -> None:
    gone = tuple(range(4, 24))
    rows = [
        hours(series("node-1", sensor="t1"), silent(*gone)),
        hours(series("node-1", sensor="t2"), silent(*gone)),
        hours(series("node-2"), steady()),
    ]
    (found,) = dropped(rows)
    assert (found.device_id, found.metric, found.severity) == ("node-1", None, "critical")
    assert found.evidence_count == 2
    assert found.end_at == DAY_END


def test_a_silent_barn_is_told_once_and_a_series_that_was_silent_longer_beside_it() -> None:
    rows = [
        hours(series("node-1", sensor="t1"), silent(4, 5, 6, 7, 8)),
        hours(series("node-1", sensor="t2"), silent(4, 5)),
        hours(series("node-2"), silent(4, 5)),
    ]
    barn, alone = dropped(rows)
    assert (barn.device_id, barn.subject, barn.severity) == (None, "", "critical")
    assert (barn.start_at, barn.end_at) == (DAY_START + timedelta(hours=4), DAY_START + timedelta(hours=6))
    assert (alone.sensor, alone.evidence_count) == ("t1", 1)
    assert "3 hours" in alone.explanation


def test_a_device_that_sleeps_at_night_is_not_missed() -> None:
    def by_day(day: int, hour: int) -> float | None:
        return float(hour) if 6 <= hour < 20 else None

    assert dropped([hours(series(), by_day)]) == []
    (found,) = dropped([hours(series(), silent(8, 9, otherwise=by_day))])
    assert found.start_at == DAY_START + timedelta(hours=8)


def test_a_device_is_missed_for_as_long_as_it_is_known() -> None:
    def until(last_day: int) -> Value:
        return lambda day, hour: 1.0 + hour if day <= last_day else None

    for last_day in (DAYS_BEFORE - 1, 3):
        (found,) = dropped([hours(series(), until(last_day))])
        assert found.start_at == DAY_START - timedelta(days=DAYS_BEFORE - last_day - 1)
        assert found.severity == "critical"
    assert dropped([hours(series(), until(1))]) == []


def test_one_missing_hour_is_no_dropout() -> None:
    assert dropped([hours(series(), silent(7))]) == []


def test_an_hour_that_was_heard_has_time_to_come() -> None:
    rows, now = [hours(series(), silent(*range(8, 24)))], DAY_START + timedelta(hours=11, minutes=30)
    heard = {series(): Heard(DAY_START + timedelta(hours=11, minutes=29), 20.0)}
    assert dropouts(window(), tracks(rows), heard, [], LIMITS, now) == []
    (silent_now,) = dropouts(window(), tracks(rows), {}, [], LIMITS, now)
    assert silent_now.end_at is None
    late = now + timedelta(hours=LIMITS.dropout_grace_hours)
    (missing,) = dropouts(window(), tracks(rows), heard, [], LIMITS, late)
    assert missing.start_at == DAY_START + timedelta(hours=8)


def test_a_declared_loss_explains_the_silence() -> None:
    loss = Loss("node-1", DAY_START + timedelta(hours=8), DAY_START + timedelta(hours=10), 7200, "spool_cap")
    other = Loss("node-2", DAY_START + timedelta(hours=8), DAY_START + timedelta(hours=10), 1, "damaged")
    (found,) = dropped([hours(series(), silent(8, 9))], losses=[loss, other])
    assert "7200 samples of this time are declared lost (spool_cap)" in found.explanation


def drifting(slope: float) -> Value:
    return lambda day, hour: steady()(day, hour) + slope * (day + hour / 24)


def test_a_sensor_that_leaves_the_others_drifts() -> None:
    rows = [
        hours(series(sensor="t1"), steady(20.0)),
        hours(series(sensor="t2"), steady(20.6)),  # placed elsewhere, and no drift
        hours(series(sensor="t3"), drifting(0.15)),
        hours(series(sensor="t4"), steady(20.1)),
    ]
    (found,) = drifts(window(), tracks(rows), LIMITS)
    assert (found.kind, found.sensor) == ("drift", "t3")
    assert found.evidence_count == DAYS_BEFORE + 1
    assert "2.1 C up" in found.explanation
    assert found.evidence[0].value is not None
    assert drifts(window(), tracks([*rows[:2], rows[3]]), LIMITS) == []


def test_of_two_sensors_nobody_knows_which() -> None:
    rows = [hours(series(sensor="t1"), steady(20.0)), hours(series(sensor="t2"), drifting(0.15))]
    (found,) = drifts(window(), tracks(rows), LIMITS)
    assert found.sensor == "t1"
    assert "down against" in found.explanation
    assert "(sensor t2)" in found.explanation
    assert "one of the two" in found.explanation


def test_units_are_not_compared_with_each_other() -> None:
    rows = [hours(series(sensor="t1"), steady()), hours(series(sensor="t2", unit="F"), drifting(2.0))]
    assert drifts(window(), tracks(rows), LIMITS) == []


def test_many_sensors_are_compared_with_the_middle_of_all() -> None:
    rows = [hours(series(f"node-{number}"), steady(20 + number / 10)) for number in range(9)]
    assert drifts(window(), tracks(rows), LIMITS) == []
    (found,) = drifts(window(), tracks([*rows, hours(series("node-x"), drifting(-0.2))]), LIMITS)
    assert found.device_id == "node-x"


def test_a_drift_over_a_few_days_only_is_not_yet_one() -> None:
    young = DAYS_BEFORE - LIMITS.drift_days_min + 2
    rows = [
        hours(series(sensor="t1"), steady()),
        hours(series(sensor="t2"), lambda day, hour: drifting(0.5)(day, hour) if day >= young else None),
    ]
    assert drifts(window(), tracks(rows), LIMITS) == []

"""Which figures of a day each chart shows."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from farmiq.console.growth.answers import Comfort, Data, Gain, Growth, Kpi, Vision, Weights
from farmiq.console.growth.figures import CSV_COLUMNS, PLANS, chart_of, noon, row_of

COMPUTED_AT = datetime(2026, 11, 17, tzinfo=UTC)
ENDS = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 30, tzinfo=UTC))


def kpi(day: int, **changed: Any) -> Kpi:
    fields: dict[str, Any] = {
        "farm_id": "farm-1", "barn_id": "barn-1", "day": date(2026, 11, day), "scope": "batch", "batch_id": "batch-1",
        "computed_at": COMPUTED_AT,
    }  # fmt: skip
    return Kpi(**fields | changed)


def weighed(mean_kg: float | None, animals: int = 10, **spread: float) -> Weights:
    return Weights(sessions=animals, animals_weighed=animals, mean_kg=mean_kg, **spread)


def test_the_weight_has_the_middle_of_the_animals_as_its_spread() -> None:
    rows = [
        kpi(16, weights=weighed(81.0, p10_kg=75.0, p90_kg=88.0)),
        kpi(15, weights=weighed(80.0, p10_kg=74.0, p90_kg=87.0)),
    ]
    (line,) = chart_of("weight", rows, "batch", "UTC", ENDS).lines
    assert (line.label, line.unit, line.values) == ("batch-1", "kg", [80.0, 81.0])
    assert (line.low, line.high) == ([74.0, 75.0], [87.0, 88.0])
    assert line.at == [noon(date(2026, 11, day)).timestamp() for day in (15, 16)]


def test_the_sentence_names_days_and_takes_no_percentile_for_an_extreme() -> None:
    rows = [
        kpi(15, weights=weighed(80.0, p10_kg=74.0, p90_kg=87.0)),
        kpi(16, weights=weighed(81.0, p10_kg=75.0, p90_kg=88.0)),
    ]
    chart = chart_of("weight", rows, "batch", "UTC", ENDS)
    assert chart.spread == ("p10", "p90")
    assert chart.summary == "batch-1: 2 points, lowest 80 kg, highest 81 kg, last 81 kg on 2026-11-16."


def test_without_percentiles_the_spread_is_the_standard_deviation() -> None:
    (line,) = chart_of("weight", [kpi(15, weights=weighed(80.0, sd_kg=4.0))], "batch", "UTC", ENDS).lines
    assert (line.low, line.high) == ([76.0], [84.0])


def test_a_day_without_a_weighing_is_a_gap_and_not_a_zero() -> None:
    rows = [kpi(day, weights=weighed(80.0)) for day in (1, 2, 5)]
    (line,) = chart_of("animals", rows, "batch", "UTC", ENDS).lines
    assert line.values == [10.0, 10.0, None, 10.0]


def test_figures_that_only_barns_have_are_of_barns_whatever_was_asked_for() -> None:
    comfort = Comfort(hours_measured=24, hours_outside=6, hours_thi_over=2, thi_mean=70.0, thi_max=79.5)
    data = Data(samples_declared_lost=3, completeness=0.975)
    rows = [kpi(15, scope="barn", batch_id="", comfort=comfort, data=data), kpi(15, weights=weighed(80.0))]
    assert [line.values for line in chart_of("comfort", rows, "batch", "UTC", ENDS).lines] == [[18.0]]
    assert [line.values for line in chart_of("completeness", rows, "batch", "UTC", ENDS).lines] == [[97.5]]
    (thi,) = chart_of("thi", rows, "barn", "UTC", ENDS).lines
    assert (thi.values, thi.high) == ([70.0], [79.5])


def test_gain_is_of_batches_and_camera_of_what_was_asked_for() -> None:
    gain = Gain(daily_gain_kg=0.8, low_kg=0.7, high_kg=0.9, days=10)
    vision = Vision(pairs=5, mean_error_kg=-1.0, mean_absolute_error_kg=1.5, mean_absolute_percentage_error=2.0)
    rows = [
        kpi(15, growth=Growth(gain, None), vision=vision),
        kpi(15, scope="barn", batch_id="", vision=vision),
    ]
    (line,) = chart_of("gain", rows, "barn", "UTC", ENDS).lines
    assert (line.label, line.values, line.low, line.high) == ("batch-1", [0.8], [0.7], [0.9])
    assert [line.label for line in chart_of("camera", rows, "barn", "UTC", ENDS).lines] == ["barn-1"]


def test_names_are_as_short_as_they_can_be() -> None:
    rows = [kpi(15, weights=weighed(1.0)), kpi(15, barn_id="barn-2", batch_id="", weights=weighed(2.0))]
    labels = [line.label for line in chart_of("weight", rows, "batch", "UTC", ENDS).lines]
    assert labels == ["batch-1 in barn-1", "without a batch in barn-2"]


@pytest.mark.parametrize("name", PLANS)
def test_a_farm_of_which_nothing_is_known_yet_has_empty_charts(name: str) -> None:
    chart = chart_of(name, [], "batch", "UTC", ENDS)
    assert (chart.lines, chart.summary) == ([], "There is no such figure in this time.")


def test_a_row_of_the_csv_has_a_value_or_nothing_for_each_column() -> None:
    bare = dict(zip(CSV_COLUMNS, row_of(kpi(15)), strict=True))
    assert (bare["day"], bare["mean_kg"], bare["completeness"]) == ("2026-11-15", None, None)
    full = dict(zip(CSV_COLUMNS, row_of(kpi(15, weights=weighed(80.0, 0))), strict=True))
    assert (full["mean_kg"], full["animals_weighed"]) == (80.0, 0)

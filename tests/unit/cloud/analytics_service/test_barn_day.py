"""The whole computation: what it puts together, and that the order of rows is nothing to it."""

import random
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farmiq.cloud.analytics_service.anomalies.found import Anomaly, AnomalyLimits
from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE, Judgement, judged
from farmiq.cloud.analytics_service.comfort import Limits
from farmiq.cloud.analytics_service.days import hour_number
from farmiq.cloud.analytics_service.inputs import BarnDay, Heard, Loss, Series, SeriesHours
from farmiq.cloud.analytics_service.kpis import Kpi
from support.analytics_days import (
    AFTERWARDS,
    DAY,
    DAY_START,
    UTC_CALENDAR,
    hours,
    inference,
    series,
    session,
    steady,
    weighings,
)


def barn() -> BarnDay:
    humid = series(metric="humidity", sensor="", unit="%")
    return BarnDay(
        UTC_CALENDAR,
        DAY,
        AFTERWARDS,
        [
            hours(series(sensor="t1"), steady()),
            hours(
                series(sensor="t2"), lambda day, hour: None if day == DAYS_BEFORE and hour in (3, 4) else 30.0 + hour
            ),
            hours(humid, lambda day, hour: 95.0 if day == DAYS_BEFORE and hour == 9 else 60.0 + (day + hour) % 4),
        ],
        {series(sensor="t1"): Heard(DAY_START, 20.0)},
        [
            session(1, 100.0, inferences=(inference(1, 101.0),)),
            session(2, 102.0),
            session(3, 61.0, batch="b2"),
            session(4, 60.0, batch=""),
        ],
        [*weighings({1: [99.0, 100.0], 2: [98.0, 99.0]}), *weighings({1: [60.0]}, batch="b2")],
        [Loss("node-1", DAY_START, DAY_START + timedelta(hours=1), 5, "spool_cap")],
    )


def judge(rows: BarnDay) -> Judgement:
    return judged(rows, AnomalyLimits(), Limits())


def test_a_row_for_the_barn_and_one_for_each_batch() -> None:
    found = judge(barn())
    whole, none, first, second = found.kpis
    assert [(kpi.scope, kpi.batch_id) for kpi in found.kpis] == [
        ("barn", ""),
        ("batch", ""),
        ("batch", "b1"),
        ("batch", "b2"),
    ]
    assert whole.weights is not None
    assert whole.weights.animals_weighed == 4
    assert whole.growth is None
    assert whole.comfort is not None
    assert whole.comfort.hours_too_humid == 1
    assert whole.data is not None
    assert whole.data.samples_declared_lost == 5
    assert whole.data.completeness == pytest.approx(70 / 72)
    assert first.weights is not None
    assert first.weights.mean_kg == 101.0
    assert first.growth is not None
    assert first.growth.batch is not None
    # Slopes 0, 0, 0.5, 1, 1, 1, 1, 1.5, 2, 2, 2 and 3: their median is 1.
    assert first.growth.batch.daily_gain_kg == 1.0
    assert first.vision is not None
    assert first.vision.mean_error_kg == 1.0
    assert first.comfort is None
    assert none.growth is None
    assert second.growth is not None
    kinds = sorted((one.kind, one.subject) for one in found.anomalies)
    assert kinds == [
        ("dropout", "node-1/temperature/t2/C"),
        ("unusual_value", "node-1/humidity//%"),
    ]


def test_the_order_of_rows_is_nothing_to_it() -> None:
    rows, expected = barn(), judge(barn())
    for seed in range(5):
        shuffle = random.Random(seed)
        mixed = BarnDay(
            rows.calendar,
            rows.day,
            rows.now,
            [_mixed(one, shuffle) for one in shuffle.sample(list(rows.hours), len(rows.hours))],
            rows.heard,
            shuffle.sample(list(rows.sessions), len(rows.sessions)),
            shuffle.sample(list(rows.earlier), len(rows.earlier)),
            rows.losses,
        )
        assert judge(mixed) == expected


def test_an_empty_day_has_no_rows() -> None:
    assert judge(BarnDay(UTC_CALENDAR, DAY, AFTERWARDS)) == Judgement([], [])


def test_no_two_anomalies_have_one_subject_and_kind() -> None:
    found = judge(barn())
    assert len({(one.kind, one.subject) for one in found.anomalies}) == len(found.anomalies)


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, DAYS_BEFORE), st.integers(0, 23), numbers, numbers), max_size=40
    ),
    st.lists(st.tuples(st.sampled_from(["", "b1"]), st.floats(0, 100_000), st.floats(0, 100_000)), max_size=12),
)
@settings(max_examples=40)
def test_whatever_is_measured_gives_a_day_that_can_be_stored_and_read(
    measured: list[tuple[int, int, int, float, float]], weighed: list[tuple[str, float, float]]
) -> None:
    first = hour_number(DAY_START - timedelta(days=DAYS_BEFORE))
    names = [series(sensor="a"), series(sensor="b"), series(metric="humidity", unit="%"), series("node-2", unit="F")]
    rows = BarnDay(
        UTC_CALENDAR,
        DAY,
        AFTERWARDS,
        [
            SeriesHours(names[which], [first + day * 24 + hour], [low], [min(low, high)], [max(low, high)], [1])
            for which, day, hour, low, high in {one[0]: one for one in measured}.values()
        ]
        + [_one_series(series(sensor="many"), first, measured)],
        sessions=[
            session(number, kilograms, batch=batch, initial_kg=seen, inferences=(inference(number, seen),))
            for number, (batch, kilograms, seen) in enumerate(weighed)
        ],
        earlier=weighings(
            {before: [kilograms] for before, (_, kilograms, _) in enumerate(weighed, 1) if kilograms >= 0.001}
        ),
    )
    found = judge(rows)
    for kpi in found.kpis:
        assert msgspec.json.decode(msgspec.json.encode(kpi), type=Kpi).scope == kpi.scope
    for anomaly in found.anomalies:
        again = msgspec.json.decode(msgspec.json.encode(anomaly), type=Anomaly)
        assert again.explanation
        assert again.evidence
        assert again.evidence_count >= len(again.evidence)
        assert again.end_at is None or again.start_at <= again.end_at


def _one_series(of: Series, first: int, measured: list[tuple[int, int, int, float, float]]) -> SeriesHours:
    by_hour = {first + day * 24 + hour: (low, high) for _, day, hour, low, high in measured}
    lows, highs = [min(pair) for pair in by_hour.values()], [max(pair) for pair in by_hour.values()]
    return SeriesHours(of, list(by_hour), lows, lows, highs, [1] * len(by_hour))


def _mixed(one: SeriesHours, shuffle: random.Random) -> SeriesHours:
    rows = list(zip(one.hours, one.means, one.lows, one.highs, one.counts, strict=True))
    shuffle.shuffle(rows)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return SeriesHours(one.series, *columns)

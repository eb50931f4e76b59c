"""What a chart is given to draw, and says in words."""

from datetime import UTC, datetime, timedelta

from farmiq.console.chart import Curve, Point, line_of, summary_of

START = datetime(2026, 11, 16, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_line_has_no_gap_while_readings_keep_their_pace() -> None:
    line = line_of(Curve("node-1", "C", [Point(at(second), 20.0 + second) for second in range(5)]))
    assert line.values == [20.0, 21.0, 22.0, 23.0, 24.0]
    assert line.at == [at(second).timestamp() for second in range(5)]
    assert (line.low, line.high) == (None, None)


def test_where_readings_are_missing_the_line_is_interrupted() -> None:
    seconds = [0, 1, 2, 60, 61]
    line = line_of(Curve("node-1", "C", [Point(at(second), 1.0) for second in seconds]))
    assert line.values == [1.0, 1.0, 1.0, None, 1.0, 1.0]
    assert at(2).timestamp() < line.at[3] < at(60).timestamp()


def test_with_a_known_step_one_missing_bucket_is_a_gap() -> None:
    minutes = [0, 60, 180]
    points = [Point(at(second), 2.0, 1.0, 3.0, 60) for second in minutes]
    line = line_of(Curve("node-1", "C", points, step_seconds=60.0))
    assert line.values == [2.0, 2.0, None, 2.0]
    assert line.low == [1.0, 1.0, None, 1.0]
    assert line.high == [3.0, 3.0, None, 3.0]


def test_the_sentence_has_the_extremes_of_the_spread_and_the_last_value() -> None:
    curve = Curve("node-1", "C", [Point(at(0), 2.0, -1.5, 3.0), Point(at(60), 2.5, 2.0, 9.25)])
    assert summary_of([curve]) == (
        "node-1: 2 points, lowest -1.5 C, highest 9.25 C, last 2.5 C at 2026-11-16 12:01:00."
    )


def test_nothing_measured_is_said_so() -> None:
    assert summary_of([Curve("node-1", "C", [])]) == "Nothing was measured in this time."
    assert line_of(Curve("node-1", "C", [])).values == []

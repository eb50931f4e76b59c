"""From the services' answers to lines, bands and rows."""

from datetime import UTC, datetime, timedelta

from farmiq.console.chart import LINES_MAX, Point
from farmiq.console.curves.answers import Bucket, GapSpan, LateSpan, LossSpan, Reading, Spans
from farmiq.console.curves.drawing import (
    Drawing,
    SensorCurve,
    chart_of,
    curves_of_buckets,
    curves_of_readings,
    rows_of,
    span_sentences,
)

START = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)>"


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def drawing(curves: list[SensorCurve], spans: dict[str, Spans] | None = None) -> Drawing:
    return Drawing("temperature", at(0), at(60), curves, spans or {"node-1": Spans()}, ["As the edge has it."])


def test_readings_come_newest_first_and_become_a_line_for_each_sensor_in_the_order_of_time() -> None:
    readings = [
        Reading(at(2), 3.0, unit="C", sensor="t1"),
        Reading(at(1), 2.0, unit="C", sensor="t2"),
        Reading(at(0), 1.0, unit="C", sensor="t1"),
        Reading(at(0), 9.0),
    ]
    curves = curves_of_readings("node-1", readings)
    assert [(curve.sensor, [point.value for point in curve.points]) for curve in curves] == [
        ("", [9.0]),
        ("t1", [1.0, 3.0]),
        ("t2", [2.0]),
    ]


def test_buckets_keep_their_extremes_and_their_width() -> None:
    (curve,) = curves_of_buckets("node-1", "1h", [Bucket(at(0), at(60), "t1", "C", 3600, 20.0, 19.0, 22.0)])
    assert curve.points == [Point(at(0), 20.0, 19.0, 22.0, 3600)]
    assert curve.step_seconds == 3600.0


def test_a_sensor_is_named_only_where_a_device_has_several() -> None:
    one = SensorCurve("node-1", "t1", "C", [Point(at(0), 1.0)], None)
    other = SensorCurve("node-1", "t2", "C", [Point(at(0), 1.0)], None)
    lone = SensorCurve("node-2", "t1", "C", [Point(at(0), 1.0)], None)
    assert [line.label for line in chart_of(drawing([one, other, lone])).lines] == ["node-1 t1", "node-1 t2", "node-2"]


def test_more_lines_than_can_be_told_apart_are_left_out_and_said_so() -> None:
    curves = [SensorCurve("node-1", f"t{number:02}", "C", [Point(at(0), 1.0)], None) for number in range(LINES_MAX + 3)]
    chart = chart_of(drawing(curves))
    assert len(chart.lines) == LINES_MAX
    assert "3 more lines are left out; the CSV has them." in chart.notes
    assert len(list(rows_of(drawing(curves)))) == LINES_MAX + 3


def test_lost_missing_and_late_times_are_bands_and_sentences() -> None:
    spans = Spans(
        lost=[LossSpan(at(1), at(2), 50, "spool_cap")],
        missing=[GapSpan(at(3), at(4), 7)],
        late=[LateSpan(at(5), at(20), 900.0), LateSpan(at(30), at(31), 70.0)],
        undated=3,
    )
    chart = chart_of(drawing([], {"node-1": spans}))
    assert [(band.kind, band.since, band.until) for band in chart.bands] == [
        ("late", at(5).timestamp(), at(20).timestamp()),
        ("late", at(30).timestamp(), at(31).timestamp()),
        ("missing", at(3).timestamp(), at(4).timestamp()),
        ("lost", at(1).timestamp(), at(2).timestamp()),
    ]
    assert list(span_sentences({"node-1": spans})) == [
        "node-1: 50 samples declared lost (spool_cap).",
        "node-1: 10 samples missing here, 3 of them of an unknown time.",
        "node-1: some came late, up to 15 min after they were taken.",
    ]


def test_where_all_is_well_the_bands_say_nothing() -> None:
    assert list(span_sentences({"node-1": Spans()})) == []


def test_a_units_text_is_carried_on_as_text() -> None:
    chart = chart_of(drawing([SensorCurve("node-1", "", HOSTILE, [Point(at(0), 1.0)], None)]))
    assert chart.lines[0].unit == HOSTILE
    assert HOSTILE in chart.summary


def test_a_row_of_the_csv_has_everything_that_a_point_has() -> None:
    curve = SensorCurve("node-1", "t1", "C", [Point(at(0), 20.0, 19.0, 22.0, 60)], 60.0)
    assert list(rows_of(drawing([curve]))) == [(at(0), "node-1", "temperature", "t1", "C", 20.0, 19.0, 22.0, 60)]

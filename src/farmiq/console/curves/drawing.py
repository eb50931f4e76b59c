"""From answers to lines, bands and rows. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from farmiq.console.chart import LINES_MAX, Band, Chart, Curve, Point, line_of, summary_of
from farmiq.console.curves.answers import Bucket, Reading, Spans
from farmiq.console.curves.choosing import WINDOW_SECONDS
from farmiq.console.wording import count, duration

CSV_COLUMNS: Final = ("at", "device_id", "metric", "sensor", "unit", "value", "lowest", "highest", "samples")


class SensorCurve(Struct, frozen=True):
    """One sensor of one device; '' is a sensor without a name."""

    device_id: str
    sensor: str
    unit: str
    points: Sequence[Point]
    step_seconds: float | None


class Drawing(Struct, frozen=True):
    """Everything behind one chart. `spans` by device."""

    metric: str
    since: datetime
    until: datetime
    curves: Sequence[SensorCurve]
    spans: Mapping[str, Spans]
    notes: Sequence[str]


def curves_of_readings(device_id: str, readings: Iterable[Reading]) -> list[SensorCurve]:
    by_sensor: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for reading in readings:
        by_sensor[reading.sensor or "", reading.unit or ""].append(Point(reading.occurred_at, reading.metric_value))
    return [
        SensorCurve(device_id, sensor, unit, sorted(points, key=lambda point: point.at), None)
        for (sensor, unit), points in sorted(by_sensor.items())
    ]


def curves_of_buckets(device_id: str, window: str, buckets: Iterable[Bucket]) -> list[SensorCurve]:
    by_sensor: dict[tuple[str, str], list[Point]] = defaultdict(list)
    for one in buckets:
        point = Point(one.bucket_start_at, one.avg_value, one.min_value, one.max_value, one.count)
        by_sensor[one.sensor or "", one.unit].append(point)
    return [
        SensorCurve(device_id, sensor, unit, sorted(points, key=lambda point: point.at), WINDOW_SECONDS.get(window))
        for (sensor, unit), points in sorted(by_sensor.items())
    ]


def chart_of(drawing: Drawing) -> Chart:
    shown = [_labelled(curve, drawing.curves) for curve in drawing.curves[:LINES_MAX]]
    left_out = len(drawing.curves) - len(shown)
    notes = [*drawing.notes, *([f"{left_out} more lines are left out; the CSV has them."] if left_out else [])]
    return Chart(
        title=f"{drawing.metric} of {', '.join(drawing.spans) or 'no device'}",
        since=drawing.since.timestamp(),
        until=drawing.until.timestamp(),
        lines=[line_of(curve) for curve in shown],
        bands=list(bands_of(drawing)),
        summary=" ".join([summary_of(shown), *span_sentences(drawing.spans)]),
        notes=notes,
    )


def bands_of(drawing: Drawing) -> Iterator[Band]:
    for spans in drawing.spans.values():
        for late in spans.late:
            label = "came late: kept on the way, and filled in afterwards"
            yield Band("late", label, late.first_at.timestamp(), late.last_at.timestamp())
        for gap in spans.missing:
            yield Band("missing", "missing here", gap.first_at.timestamp(), gap.last_at.timestamp())
        for loss in spans.lost:
            yield Band("lost", "declared lost", loss.first_at.timestamp(), loss.last_at.timestamp())


def span_sentences(spans: Mapping[str, Spans]) -> Iterator[str]:
    """What the bands say, in words. Nothing to say where all is well."""
    for device_id, found in spans.items():
        if found.lost:
            reasons = ", ".join(sorted({loss.reason for loss in found.lost}))
            yield f"{device_id}: {_samples(sum(loss.samples for loss in found.lost))} declared lost ({reasons})."
        if found.missing or found.undated:
            undated = f", {count(found.undated)} of them of an unknown time" if found.undated else ""
            missing = sum(gap.samples for gap in found.missing) + found.undated
            yield f"{device_id}: {_samples(missing)} missing here{undated}."
        if found.late:
            latest = max(late.delay_seconds for late in found.late)
            yield f"{device_id}: some came late, up to {duration(latest)} after they were taken."


def rows_of(drawing: Drawing) -> Iterator[tuple[object, ...]]:
    for curve in drawing.curves:
        for point in curve.points:
            yield (
                point.at, curve.device_id, drawing.metric, curve.sensor, curve.unit, point.value, point.low, point.high,
                point.samples,
            )  # fmt: skip


def _labelled(curve: SensorCurve, beside: Sequence[SensorCurve]) -> Curve:
    """The sensor is named where the device has several."""
    of_device = [other for other in beside if other.device_id == curve.device_id]
    label = f"{curve.device_id} {curve.sensor}" if len(of_device) > 1 and curve.sensor else curve.device_id
    return Curve(label, curve.unit, curve.points, curve.step_seconds)


def _samples(number: int) -> str:
    return "1 sample" if number == 1 else f"{count(number)} samples"

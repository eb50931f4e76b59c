"""Which of a day's figures each chart and the table show. Pure."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Final

from msgspec import Struct

from farmiq.console.chart import EXTREMES, LINES_MAX, Chart, Curve, Point, line_of, summary_of
from farmiq.console.growth.answers import Kpi

DAY_SECONDS: Final = 86_400.0
NOTHING: Final = "There is no such figure in this time."

Figure = Callable[[Kpi], tuple[float | None, float | None, float | None]]
"""Value, lowest and highest of a row; the value is None where the day has none."""

CSV_COLUMNS: Final = (
    "day", "farm_id", "barn_id", "scope", "batch_id", "animals_weighed", "mean_kg", "sd_kg", "p10_kg", "median_kg", "p90_kg",
    "daily_gain_kg", "recent_daily_gain_kg", "camera_pairs", "camera_mean_error_kg", "camera_mean_absolute_error_kg", "thi_mean",
    "thi_max", "hours_measured", "hours_outside_comfort", "completeness", "samples_declared_lost", "samples_missing",
    "computed_at",
)  # fmt: skip


class Plan(Struct, frozen=True):
    """One chart: of which rows, in which unit, and what its spread is."""

    title: str
    unit: str
    scopes: frozenset[str]
    figure: Figure
    note: str
    spread: tuple[str, str] = EXTREMES


def _weight(row: Kpi) -> tuple[float | None, float | None, float | None]:
    weights = row.weights
    if weights is None or weights.mean_kg is None:
        return None, None, None
    if weights.p10_kg is not None and weights.p90_kg is not None:
        return weights.mean_kg, weights.p10_kg, weights.p90_kg
    sd = weights.sd_kg or 0.0
    return weights.mean_kg, weights.mean_kg - sd, weights.mean_kg + sd


def _gain(row: Kpi) -> tuple[float | None, float | None, float | None]:
    gain = row.growth.batch if row.growth else None
    return (gain.daily_gain_kg, gain.low_kg, gain.high_kg) if gain else (None, None, None)


def _animals(row: Kpi) -> tuple[float | None, float | None, float | None]:
    return float(row.weights.animals_weighed) if row.weights else None, None, None


def _camera(row: Kpi) -> tuple[float | None, float | None, float | None]:
    return row.vision.mean_absolute_error_kg if row.vision else None, None, None


def _thi(row: Kpi) -> tuple[float | None, float | None, float | None]:
    comfort = row.comfort
    if comfort is None or comfort.thi_mean is None:
        return None, None, None
    return comfort.thi_mean, comfort.thi_mean, comfort.thi_max


def _comfort(row: Kpi) -> tuple[float | None, float | None, float | None]:
    comfort = row.comfort
    return float(comfort.hours_measured - comfort.hours_outside) if comfort else None, None, None


def _completeness(row: Kpi) -> tuple[float | None, float | None, float | None]:
    share = row.data.completeness if row.data else None
    return None if share is None else 100 * share, None, None


_BOTH: Final = frozenset({"barn", "batch"})
_BARN: Final = frozenset({"barn"})
PLANS: Final[Mapping[str, Plan]] = {
    "weight": Plan("Weight", "kg", _BOTH, _weight, "The line is the day's mean; the shade holds the middle 80 % of the animals.",
                   ("p10", "p90")),
    "gain": Plan("Daily gain", "kg/day", frozenset({"batch"}), _gain, "Since the batch was first weighed, with a 95 % interval.",
                 ("at least", "at most")),
    "animals": Plan("Animals weighed", "animals", _BOTH, _animals, "Sessions of the day that ended with a weight."),
    "camera": Plan("Camera against scale", "kg", _BOTH, _camera, "The mean absolute error of the model's weight."),
    "thi": Plan("Temperature-humidity index", "THI", _BARN, _thi, "The day's mean; the shade goes up to its highest hour.",
                ("mean", "highest hour")),
    "comfort": Plan("Hours in comfort", "h", _BARN, _comfort, "Of the hours in which there was something to judge."),
    "completeness": Plan("Completeness", "%", _BARN, _completeness, "The share of series-hours that have a sample."),
}  # fmt: skip


def chart_of(name: str, rows: Sequence[Kpi], scope: str, timezone: str, ends: tuple[datetime, datetime]) -> Chart:
    """`scope` chooses between barns and batches where a figure has both."""
    plan = PLANS[name]
    wanted = scope if scope in plan.scopes else next(iter(plan.scopes))
    curves = curves_of(plan, [row for row in rows if row.scope == wanted])
    left_out = max(0, len(curves) - LINES_MAX)
    more = [f"{left_out} more lines are left out; the CSV has them."] if left_out else []
    return Chart(
        title=plan.title,
        x="day",
        since=noon(ends[0].date()).timestamp() - DAY_SECONDS / 2,
        until=noon(ends[1].date()).timestamp() + DAY_SECONDS / 2,
        lines=[line_of(curve) for curve in curves[:LINES_MAX]],
        spread=plan.spread,
        summary=summary_of(curves[:LINES_MAX], plan.spread, is_daily=True) if curves else NOTHING,
        notes=[plan.note, f"Days are those of {timezone}.", *more],
    )


def curves_of(plan: Plan, rows: Sequence[Kpi]) -> list[Curve]:
    name = namer(rows)
    points: dict[str, list[Point]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.day):
        value, low, high = plan.figure(row)
        if value is not None:
            has_spread = low is not None and high is not None
            points[name(row)].append(
                Point(noon(row.day), value, low if has_spread else None, high if has_spread else None)
            )
    return [Curve(label, plan.unit, points[label], DAY_SECONDS) for label in sorted(points)]


def namer(rows: Sequence[Kpi]) -> Callable[[Kpi], str]:
    """Names that are as short as they can be and still tell the rows apart."""
    farms, barns = {row.farm_id for row in rows}, {(row.farm_id, row.barn_id) for row in rows}

    def name(row: Kpi) -> str:
        barn = f"{row.farm_id}/{row.barn_id}" if len(farms) > 1 else row.barn_id
        if row.scope == "barn":
            return barn
        batch = row.batch_id or "without a batch"
        return f"{batch} in {barn}" if len(barns) > 1 else batch

    return name


def noon(day: date) -> datetime:
    """The middle of the day, in UTC whatever the farm's zone: the axis shows days and no hours."""
    return datetime.combine(day, time(12), UTC)


def row_of(row: Kpi) -> tuple[object, ...]:
    weights, growth, vision, comfort, data = row.weights, row.growth, row.vision, row.comfort, row.data
    batch, recent = (growth.batch, growth.recent) if growth else (None, None)
    return (
        row.day.isoformat(), row.farm_id, row.barn_id, row.scope, row.batch_id,
        weights and weights.animals_weighed, weights and weights.mean_kg, weights and weights.sd_kg, weights and weights.p10_kg,
        weights and weights.median_kg, weights and weights.p90_kg, batch and batch.daily_gain_kg, recent and recent.daily_gain_kg,
        vision and vision.pairs, vision and vision.mean_error_kg, vision and vision.mean_absolute_error_kg,
        comfort and comfort.thi_mean, comfort and comfort.thi_max, comfort and comfort.hours_measured,
        comfort and comfort.hours_outside, data and data.completeness, data and data.samples_declared_lost,
        data and data.samples_missing, row.computed_at,
    )  # fmt: skip

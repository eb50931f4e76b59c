"""Fifteen days of a barn's sensors, hour by hour, and weigh sessions, for the computation of its last day."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid5
from zoneinfo import ZoneInfo

from farmiq.cloud.analytics_service.barn_day import DAYS_BEFORE
from farmiq.cloud.analytics_service.days import Calendar, Window, hour_number, window_of
from farmiq.cloud.analytics_service.inputs import Inference, Series, SeriesHours, Session, Track, Weighing, tracks_of

UTC_CALENDAR = Calendar(ZoneInfo("UTC"))
DAY = date(2026, 3, 15)
DAY_START = datetime(2026, 3, 15, tzinfo=UTC)
DAY_END = DAY_START + timedelta(days=1)
AFTERWARDS = DAY_END + timedelta(days=2)
"""Late enough that nothing of the day is still awaited."""

Value = Callable[[int, int], float | None]
"""The mean of an hour, by day (0 is the oldest, `DAYS_BEFORE` the day itself) and hour of day. None: no sample."""

NAMES = UUID("018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0000")


def series(device: str = "node-1", metric: str = "temperature", sensor: str = "t1", unit: str = "C") -> Series:
    return Series(device, metric, sensor, unit)


def hours(of: Series, value: Value, *, half_width: float = 0.5, count: int = 60) -> SeriesHours:
    """Within each hour the samples lie `half_width` around the mean."""
    first = hour_number(DAY_START - timedelta(days=DAYS_BEFORE))
    told = [(first + day * 24 + hour, value(day, hour)) for day in range(DAYS_BEFORE + 1) for hour in range(24)]
    known = [(number, mean) for number, mean in told if mean is not None]
    means = [mean for _, mean in known]
    return SeriesHours(
        of,
        [number for number, _ in known],
        means,
        [mean - half_width for mean in means],
        [mean + half_width for mean in means],
        [count] * len(known),
    )


def window() -> Window:
    return window_of(UTC_CALENDAR, DAY, DAYS_BEFORE)


def tracks(rows: Sequence[SeriesHours]) -> list[Track]:
    return tracks_of(window(), rows)


def steady(level: float = 20.0) -> Callable[[int, int], float]:
    """A barn's temperature: warmer by day, and never twice the same."""
    return lambda day, hour: level + 0.3 * abs(hour - 12) / 12 + 0.05 * ((day * 7 + hour * 3) % 5)


def session(number: int, weight: float | None, *, batch: str = "b1", minute: int = 0, **rest: object) -> Session:
    return Session(
        session_id=uuid5(NAMES, str(number)),
        finalized_at=DAY_START + timedelta(hours=9, minutes=minute or number % 600),
        device_id="scale-1",
        batch_id=batch,
        final_kg=weight,
        **rest,  # type: ignore[arg-type]  # named by the tests
    )


def inference(number: int, predicted: float, confidence: float = 0.9) -> Inference:
    return Inference(uuid5(NAMES, f"seen {number}"), predicted, confidence, "v1", DAY_START)


def weighings(weights_by_day: Mapping[int, Sequence[float]], batch: str = "b1") -> list[Weighing]:
    """Keys are days before the day."""
    return [
        Weighing(batch, DAY - timedelta(days=before), weight)
        for before, weights in weights_by_day.items()
        for weight in weights
    ]

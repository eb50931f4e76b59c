"""What a barn's day is computed from: plain rows, and nothing that has to be looked up."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

import msgspec
import numpy as np

from farmiq.cloud.analytics_service.days import Calendar, Flags, Values, Window

WEIGHT_KG_MIN = 0.001
"""A gram. What is less is an empty scale, and no animal."""


class Series(msgspec.Struct, frozen=True, order=True):
    """One sensor's metric. A device that names no sensor or no unit has '' there."""

    device_id: str
    metric: str
    sensor: str
    unit: str

    @property
    def name(self) -> str:
        """For sentences."""
        return f"{self.metric} of {self.device_id}" + (f" (sensor {self.sensor})" if self.sensor else "")


class SeriesHours(msgspec.Struct, frozen=True):
    """One series' hours as columns, in any order. `hours` counts hours since the epoch."""

    series: Series
    hours: list[int]
    means: list[float]
    lows: list[float]
    highs: list[float]
    counts: list[int]


class Heard(msgspec.Struct, frozen=True):
    at: datetime
    value: float


class Inference(msgspec.Struct, frozen=True):
    result_id: UUID
    predicted_kg: float
    confidence: float
    model_version: str
    at: datetime


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A finalized session. `recorded_kg` are the weights that the scale told on the way, in the order of their times."""

    session_id: UUID
    finalized_at: datetime
    device_id: str = ""
    batch_id: str = ""
    initial_kg: float | None = None
    final_kg: float | None = None
    inference_result_id: UUID | None = None
    recorded_kg: tuple[float, ...] = ()
    inferences: tuple[Inference, ...] = ()

    @property
    def weight_kg(self) -> float | None:
        """What the station settled on, else the middle of what the scale told. An empty scale weighs no animal."""
        told = self.final_kg
        if told is None and self.recorded_kg:
            told = float(np.median(self.recorded_kg))
        return None if told is None or told < WEIGHT_KG_MIN else told

    @property
    def seen(self) -> Inference | None:
        """The inference that the session names, else the surest one."""
        named = [one for one in self.inferences if one.result_id == self.inference_result_id]
        return max(named or self.inferences, key=lambda one: (one.confidence, one.at, one.result_id), default=None)


class Weighing(msgspec.Struct, frozen=True):
    """A weight of an earlier day, for the batch's line."""

    batch_id: str
    day: date
    weight_kg: float


class Loss(msgspec.Struct, frozen=True):
    device_id: str
    first_at: datetime
    last_at: datetime
    samples: int
    reason: str


class Kept(msgspec.Struct, frozen=True):
    """What the owner of the measurements says of the day's samples. `missing`: measured, and neither here nor declared lost."""

    stored: int
    missing: int


@dataclass(frozen=True)
class BarnDay:
    """`earlier` are weights of the batches that were weighed on this day, from days before it.

    `left` are devices that were heard in another barn after they were last heard in this one.
    """

    calendar: Calendar
    day: date
    now: datetime
    hours: Sequence[SeriesHours] = ()
    heard: dict[Series, Heard] = field(default_factory=dict)
    sessions: Sequence[Session] = ()
    earlier: Sequence[Weighing] = ()
    losses: Sequence[Loss] = ()
    left: frozenset[str] = frozenset()
    kept: Kept | None = None


@dataclass(frozen=True, eq=False)
class Track:
    """One series laid out in the hours of a window; NaN where it has no sample."""

    series: Series
    mean: Values
    low: Values
    high: Values
    count: Values

    @property
    def is_present(self) -> Flags:
        return ~np.isnan(self.mean)


def tracks_of(window: Window, hours: Sequence[SeriesHours]) -> list[Track]:
    """In the order of their names, so that the same rows give the same answer whatever their order."""
    ordered = sorted(hours, key=lambda one: one.series)
    return [
        Track(
            one.series, *(window.column(one.hours, values) for values in (one.means, one.lows, one.highs, one.counts))
        )
        for one in ordered
    ]

"""What a day comes to, in numbers. `docs/reference/analytics.md` says how each is made and what it means."""

from typing import Literal

import msgspec

Scope = Literal["barn", "batch"]


class Weights(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`sessions` were finalized; `animals_weighed` of them had a weight. `uniformity` is the share within a tenth of the mean."""

    sessions: int
    animals_weighed: int
    mean_kg: float | None = None
    sd_kg: float | None = None
    cv: float | None = None
    min_kg: float | None = None
    p10_kg: float | None = None
    p25_kg: float | None = None
    median_kg: float | None = None
    p75_kg: float | None = None
    p90_kg: float | None = None
    max_kg: float | None = None
    uniformity: float | None = None


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """Kilograms a day, with a 95 % interval where the weights are enough for one."""

    daily_gain_kg: float
    low_kg: float | None
    high_kg: float | None
    days: int
    weights: int


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Since the batch was first weighed, and over the last days only."""

    batch: Gain | None
    recent: Gain | None


class Vision(msgspec.Struct, frozen=True, kw_only=True):
    """Camera against scale: positive means that the camera says more."""

    pairs: int
    mean_error_kg: float
    mean_absolute_error_kg: float
    mean_absolute_percentage_error: float


class Comfort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hours are counted where there was something to judge. `thi` is the temperature-humidity index by `formula`."""

    formula: str
    hours_measured: int
    hours_outside: int
    hours_too_hot: int
    hours_too_cold: int
    hours_too_humid: int
    hours_too_dry: int
    hours_thi_over: int
    temperature_mean_c: float | None = None
    temperature_min_c: float | None = None
    temperature_max_c: float | None = None
    humidity_mean_percent: float | None = None
    thi_mean: float | None = None
    thi_max: float | None = None


class Data(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether the day is all there. `completeness` is the share of series-hours that have a sample."""

    series: int
    hours_expected: int
    hours_present: int
    samples: int
    samples_declared_lost: int
    completeness: float | None = None
    samples_stored: int | None = None
    samples_missing: int | None = None


class Kpi(msgspec.Struct, frozen=True, kw_only=True):
    """`batch_id` is '' for the whole barn and for animals whose sessions named no batch; `scope` tells the two apart."""

    scope: Scope
    batch_id: str = ""
    weights: Weights | None = None
    growth: Growth | None = None
    vision: Vision | None = None
    comfort: Comfort | None = None
    data: Data | None = None

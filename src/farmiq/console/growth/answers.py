"""What cloud-analytics-service answers. docs/reference/analytics.md says how each figure is made."""

from datetime import date, datetime
from typing import Literal
from uuid import UUID

from msgspec import Struct


class Weights(Struct, frozen=True, kw_only=True):
    sessions: int
    animals_weighed: int
    mean_kg: float | None = None
    sd_kg: float | None = None
    p10_kg: float | None = None
    median_kg: float | None = None
    p90_kg: float | None = None
    uniformity: float | None = None


class Gain(Struct, frozen=True, kw_only=True):
    daily_gain_kg: float
    low_kg: float | None
    high_kg: float | None
    days: int


class Growth(Struct, frozen=True):
    batch: Gain | None
    recent: Gain | None


class Vision(Struct, frozen=True, kw_only=True):
    pairs: int
    mean_error_kg: float
    mean_absolute_error_kg: float
    mean_absolute_percentage_error: float


class Comfort(Struct, frozen=True, kw_only=True):
    hours_measured: int
    hours_outside: int
    hours_thi_over: int
    temperature_mean_c: float | None = None
    temperature_min_c: float | None = None
    temperature_max_c: float | None = None
    humidity_mean_percent: float | None = None
    thi_mean: float | None = None
    thi_max: float | None = None


class Data(Struct, frozen=True, kw_only=True):
    """`completeness` is a share, from 0 to 1."""

    samples_declared_lost: int
    completeness: float | None = None
    samples_stored: int | None = None
    samples_missing: int | None = None


class Kpi(Struct, frozen=True, kw_only=True):
    farm_id: str
    barn_id: str
    day: date
    scope: Literal["barn", "batch"]
    batch_id: str
    computed_at: datetime
    weights: Weights | None = None
    growth: Growth | None = None
    vision: Vision | None = None
    comfort: Comfort | None = None
    data: Data | None = None


class KpiPage(Struct, frozen=True):
    timezone: str
    kpis: list[Kpi]
    next: str | None = None


class Evidence(Struct, frozen=True, kw_only=True):
    at: datetime
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    unit: str = ""
    device_id: str | None = None
    metric: str | None = None
    sensor: str | None = None
    session_id: UUID | None = None
    note: str = ""


class Anomaly(Struct, frozen=True, kw_only=True):
    id: UUID
    farm_id: str
    barn_id: str
    day: date
    kind: str
    severity: str
    device_id: str | None
    metric_type: str | None
    sensor: str | None
    batch_id: str | None
    start_at: datetime
    end_at: datetime | None
    explanation: str
    evidence: list[Evidence]
    evidence_count: int
    detected_at: datetime
    cleared_at: datetime | None


class AnomalyPage(Struct, frozen=True):
    anomalies: list[Anomaly]
    next: str | None = None

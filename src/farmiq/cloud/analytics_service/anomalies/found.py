"""An anomaly, and the rows that show it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
import numpy as np

from farmiq.cloud.analytics_service.days import Flags
from farmiq.cloud.analytics_service.inputs import Series

Kind = Literal[
    "unusual_value",
    "flat_line",
    "dropout",
    "drift",
    "weight_outlier",
    "weight_jump",
    "batch_jump",
    "vision_disagreement",
]
Severity = Literal["warning", "critical"]

EVIDENCE_ROWS_MAX = 50


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row: what was there, and between which limits it should have been."""

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


class Anomaly(msgspec.Struct, frozen=True, kw_only=True):
    """`subject` tells it apart from others of its kind on the same day. `end_at` is None while it goes on."""

    kind: Kind
    severity: Severity
    subject: str
    start_at: datetime
    end_at: datetime | None
    explanation: str
    evidence: tuple[Evidence, ...]
    evidence_count: int
    device_id: str | None = None
    metric: str | None = None
    sensor: str | None = None
    batch_id: str | None = None


class AnomalyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When something is worth a person's attention. `docs/reference/analytics.md` says what each one means."""

    unusual_z: float = 4.5
    usual_days_min: int = 5
    flat_hours: int = 6
    dropout_hours: int = 2
    dropout_grace_hours: int = 6
    drift_z: float = 3.0
    drift_days_min: int = 7
    weight_z: float = 4.0
    weight_sessions_min: int = 10
    weight_jump: float = 0.15
    batch_jump_per_day: float = 0.25
    vision_disagreement: float = 0.15
    recent_days: int = 14


def subject_of(series: Series) -> str:
    return f"{series.device_id}/{series.metric}/{series.sensor}/{series.unit}"


def runs(flags: Flags) -> list[tuple[int, int]]:
    """First and last index of each unbroken run of True."""
    edges = np.diff(np.concatenate(([0], flags.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    return [(int(first), int(last)) for first, last in zip(starts, ends, strict=True)]


def worst_first(rows: Iterable[tuple[float, Evidence]]) -> tuple[Evidence, ...]:
    """As many as one can look at. Of two that are equally bad, the earlier one first."""
    ordered = sorted(rows, key=lambda row: (-row[0], row[1].at, str(row[1].session_id), row[1].device_id or ""))
    return tuple(evidence for _, evidence in ordered[:EVIDENCE_ROWS_MAX])


def number(value: float | None) -> str:
    """For sentences: as many digits as a person reads."""
    return "nothing" if value is None else f"{value:.4g}"


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"

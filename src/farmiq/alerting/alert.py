"""An alert as it is stored and shown."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

AlertStatus = Literal["open", "acknowledged", "closed"]
Severity = Literal["warning", "critical"]
Labels = tuple[tuple[str, str], ...]
"""Sorted by name."""


class Cause(Struct, frozen=True):
    """What an alert is about. Of one cause there is at most one alert that is not closed."""

    rule: str
    labels: Labels


class Alert(Struct, frozen=True, kw_only=True):
    id: str
    rule: str
    labels: dict[str, str]
    severity: Severity
    status: AlertStatus
    summary: str
    value: float
    """What the rule's expression gave when it was last looked at."""
    opened_at: datetime
    last_seen_at: datetime
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None
    closed_at: datetime | None = None

    @property
    def cause(self) -> Cause:
        return Cause(self.rule, tuple(sorted(self.labels.items())))

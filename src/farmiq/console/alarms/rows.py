"""Both kinds of alerts as one list. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from farmiq.alerting import Alert, AlertStatus

Source = Literal["rule", "edge"]

_WORST_FIRST: Final = {"critical": 0, "warning": 1}


class EdgeAlert(Struct, frozen=True):
    """As edge-telemetry-timeseries tells it."""

    id: str
    kind: str
    subject: str
    status: AlertStatus
    opened_at: datetime
    last_seen_at: datetime
    tenant_id: str | None = None
    evidence: dict[str, Any] = {}
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    note: str | None = None
    closed_at: datetime | None = None


class AlarmRow(Struct, frozen=True, kw_only=True):
    source: Source
    id: str
    name: str
    summary: str
    severity: str
    status: AlertStatus
    opened_at: datetime
    last_seen_at: datetime
    acknowledged_by: str | None
    note: str | None
    closed_at: datetime | None
    evidence: dict[str, Any]


def of_rule(alert: Alert) -> AlarmRow:
    return AlarmRow(
        source="rule", id=alert.id, name=alert.rule, summary=alert.summary, severity=alert.severity,
        status=alert.status, opened_at=alert.opened_at, last_seen_at=alert.last_seen_at,
        acknowledged_by=alert.acknowledged_by, note=alert.note, closed_at=alert.closed_at,
        evidence={**alert.labels, "value": alert.value},
    )  # fmt: skip


def of_edge(alert: EdgeAlert) -> AlarmRow:
    """What a service raises about one thing is a warning: what would be worse has a rule."""
    return AlarmRow(
        source="edge", id=alert.id, name=alert.kind, summary=alert.subject, severity="warning",
        status=alert.status, opened_at=alert.opened_at, last_seen_at=alert.last_seen_at,
        acknowledged_by=alert.acknowledged_by, note=alert.note, closed_at=alert.closed_at, evidence=alert.evidence,
    )  # fmt: skip


def in_order(rows: Iterable[AlarmRow]) -> list[AlarmRow]:
    """The worst first, and of those the newest."""
    return sorted(rows, key=lambda row: (_WORST_FIRST.get(row.severity, 2), -row.opened_at.timestamp(), row.id))

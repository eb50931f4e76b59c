"""Both kinds of alerts as one list. Pure."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal

from msgspec import Struct

from farmiq.alerting import Alert, AlertStatus
from farmiq.contracts.ids import ID_PATTERN

Source = Literal["rule", "edge"]

_SESSION: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ID: Final = re.compile(ID_PATTERN)
_PAGES: Final = {
    "station_loss": "/losses",
    "media_transfer_failed": "/sync",
    "retention_forced": "/losses",
    "weigh_session_incomplete": "/sessions?status=incomplete&range=1y",
}
_TITLES: Final = {
    "/losses": "Losses",
    "/sync": "Sync",
    "/sessions?status=incomplete&range=1y": "All incomplete sessions",
}
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


class Lead(Struct, frozen=True):
    """Where more of it is to be seen."""

    text: str
    path: str


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
    leads: tuple[Lead, ...] = ()

    @property
    def kind(self) -> str:
        """How it is coloured. What is over is not wrong any more."""
        if self.status == "closed":
            return "good"
        return "bad" if self.severity == "critical" else "warn"


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
        leads=leads_of(alert.kind, alert.evidence),
    )  # fmt: skip


def leads_of(kind: str, evidence: Mapping[str, Any]) -> tuple[Lead, ...]:
    """To what the evidence names. It comes from a service, and an id that is none leads nowhere."""
    found = [Lead(_TITLES[path], path)] if (path := _PAGES.get(kind)) else []
    if _SESSION.fullmatch(session_id := str(evidence.get("session_id", ""))):
        found.insert(0, Lead(f"Weigh session {session_id}", f"/sessions/{session_id}"))
    if _ID.search(device_id := str(evidence.get("device_id", ""))):
        found.append(Lead(device_id, f"/devices/{device_id}"))
    return tuple(found)


def in_order(rows: Iterable[AlarmRow]) -> list[AlarmRow]:
    """The worst first, and of those the newest."""
    return sorted(rows, key=lambda row: (_WORST_FIRST.get(row.severity, 2), -row.opened_at.timestamp(), row.id))

"""The alerts and what is still to be told of them, in a SQLite file. An alert and its notice are one commit."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from msgspec import Struct

from farmiq.alerting.alert import Alert, AlertStatus, Cause
from farmiq.alerting.changes import Change
from farmiq.alerting.evaluation import Firing
from farmiq.alerting.history import Sample
from farmiq.alerting.rules import rule_named
from farmiq.alerting.webhook import What, body_of
from farmiq.kit.due_times import AHEAD_SECONDS
from farmiq.kit.errors import Rejected
from farmiq.kit.ids import new_id
from farmiq.kit.logging import get_logger
from farmiq.kit.sqlite_file import FileDamaged, open_file, transaction

FILE: Final = "alerts.db"
CLOSED_KEPT: Final = timedelta(days=90)
NOTICES_MAX: Final = 1000
"""That wait to be told. The webhook is away then and the oldest is left out; the alert itself is kept."""

_STEPS: Final = (
    """
CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    rule TEXT NOT NULL,
    labels TEXT NOT NULL,
    severity TEXT NOT NULL CHECK (severity IN ('warning', 'critical')),
    status TEXT NOT NULL CHECK (status IN ('open', 'acknowledged', 'closed')),
    summary TEXT NOT NULL,
    value REAL,
    opened_at REAL NOT NULL,
    last_seen_at REAL NOT NULL,
    acknowledged_at REAL,
    acknowledged_by TEXT,
    note TEXT,
    closed_at REAL
) WITHOUT ROWID;
CREATE UNIQUE INDEX alerts_one_for_a_cause ON alerts (rule, labels) WHERE status <> 'closed';
CREATE INDEX alerts_by_status ON alerts (status, opened_at, id);
CREATE TABLE notices (
    id TEXT PRIMARY KEY,
    body BLOB NOT NULL,
    made_at REAL NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at REAL NOT NULL,
    last_error TEXT
) WITHOUT ROWID;
CREATE INDEX notices_due ON notices (next_at);
CREATE TABLE counters (
    target TEXT NOT NULL,
    metric TEXT NOT NULL,
    labels TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (target, metric, labels)
) WITHOUT ROWID;
""",
)

log = get_logger(__name__)


class AlertUnknown(Rejected):
    """There is no alert of that id."""

    code = "alert_unknown"


class AlertClosed(Rejected):
    """The alert is closed: its cause is gone, and there is nothing left to acknowledge."""

    code = "alert_closed"


class Waiting(Struct, frozen=True):
    """A notice that has not been taken."""

    id: str
    body: bytes
    made_at: datetime
    attempts: int


class AlertStore:
    """Every call is a few pages of a local file: short enough for the event loop, which one thread runs."""

    def __init__(self, folder: Path, now: datetime | None = None, runbook: str | None = None) -> None:
        """`runbook`: where its page is published, for those who are told of an alert."""
        self._runbook = runbook
        self._connection = _open(folder / FILE, now or datetime.now(UTC))

    def close(self) -> None:
        self._connection.close()

    def alerts(
        self, status: AlertStatus | None = None, *, after: tuple[datetime, str] | None = None, limit: int = 100
    ) -> list[Alert]:
        """The newest first. `after` is when the last one of the page before was opened, and its id."""
        opened_at, last_id = (after[0].timestamp(), after[1]) if after else (float("inf"), "")
        rows = self._connection.execute(
            "SELECT * FROM alerts WHERE (? IS NULL OR status = ?) AND (opened_at, id) < (?, ?)"
            " ORDER BY opened_at DESC, id DESC LIMIT ?",
            (status, status, opened_at, last_id, limit),
        )
        return [_alert(row) for row in rows]

    def not_closed(self) -> list[Alert]:
        """Open and acknowledged: the worst first, then the oldest."""
        rows = self._connection.execute("SELECT * FROM alerts WHERE status <> 'closed' ORDER BY severity, opened_at")
        return [_alert(row) for row in rows]

    def find(self, alert_id: str) -> Alert:
        row = self._connection.execute("SELECT * FROM alerts WHERE id = ?", (alert_id,)).fetchone()
        if row is None:
            raise AlertUnknown(f"There is no alert {alert_id[:64]}")
        return _alert(row)

    def acknowledge(self, alert_id: str, by: str, note: str, now: datetime) -> Alert:
        """Whoever does it again replaces name and note."""
        with transaction(self._connection):
            done = self._connection.execute(
                "UPDATE alerts SET status = 'acknowledged', acknowledged_at = ?, acknowledged_by = ?, note = ?"
                " WHERE id = ? AND status <> 'closed'",
                (now.timestamp(), by[:200], note[:2000], alert_id),
            )
        alert = self.find(alert_id)
        if done.rowcount == 0:
            raise AlertClosed(f"The alert {alert_id} is closed")
        return alert

    def apply(self, found: Sequence[Change], now: datetime, *, is_told: bool) -> None:
        """All of them in one commit, with what the webhook is to be told."""
        if not found:
            return
        with transaction(self._connection):
            for change in found:
                alert = self._carry_out(change, now)
                if is_told and alert is not None and change.what != "seen":
                    self._note(_told_as(change), alert, now)
            if is_told:
                self._bound_notices()

    def due_notice(self, now: datetime) -> Waiting | None:
        row = self._connection.execute(
            "SELECT * FROM notices WHERE next_at <= ? OR next_at > ? ORDER BY next_at, id LIMIT 1",
            (now.timestamp(), now.timestamp() + AHEAD_SECONDS),
        ).fetchone()
        return None if row is None else Waiting(row["id"], row["body"], _time(row["made_at"]), row["attempts"])

    def notices_waiting(self) -> int:
        (count,) = self._connection.execute("SELECT count(*) FROM notices").fetchone()
        return int(count)

    def end_notice(self, notice_id: str) -> None:
        """It was taken, or nobody will try it again."""
        with transaction(self._connection):
            self._connection.execute("DELETE FROM notices WHERE id = ?", (notice_id,))

    def put_off_notice(self, notice_id: str, reason: str, next_at: datetime) -> None:
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE notices SET attempts = attempts + 1, last_error = ?, next_at = ? WHERE id = ?",
                (reason[:500], next_at.timestamp(), notice_id),
            )

    def counters(self) -> dict[str, list[Sample]]:
        """What the counters were when they were last looked at, by target."""
        found: dict[str, list[Sample]] = {}
        for row in self._connection.execute("SELECT * FROM counters ORDER BY target, metric, labels"):
            labels = tuple(sorted(json.loads(row["labels"]).items()))
            found.setdefault(row["target"], []).append(Sample(row["metric"], labels, row["value"]))
        return found

    def keep_counters(self, counters: Mapping[str, Sequence[Sample]]) -> None:
        """Written only where something has changed."""
        known = {(target, sample) for target, samples in self.counters().items() for sample in samples}
        rows = [
            (target, sample.metric, json.dumps(dict(sample.labels)), sample.value)
            for target, samples in counters.items()
            for sample in samples
            if (target, sample) not in known
        ]
        if rows:
            with transaction(self._connection):
                self._connection.executemany("INSERT OR REPLACE INTO counters VALUES (?, ?, ?, ?)", rows)

    def forget_old(self, now: datetime) -> int:
        """Closed alerts past their time. Returns how many."""
        with transaction(self._connection):
            gone = self._connection.execute(
                "DELETE FROM alerts WHERE status = 'closed' AND closed_at < ?", ((now - CLOSED_KEPT).timestamp(),)
            )
        return gone.rowcount

    def _carry_out(self, change: Change, now: datetime) -> Alert | None:
        if change.alert is None:
            return None if change.firing is None else self._open_alert(change.firing, now)
        if change.what == "closed" or change.firing is None:
            self._connection.execute(
                "UPDATE alerts SET status = 'closed', closed_at = ? WHERE id = ?", (now.timestamp(), change.alert.id)
            )
        else:
            # Known of and no worse: it stays acknowledged. Worse, or more of it: somebody has to look again.
            opens = change.what in {"worsened", "raised_again"}
            self._connection.execute(
                "UPDATE alerts SET severity = ?, value = ?, last_seen_at = ?,"
                " status = CASE WHEN ? THEN 'open' ELSE status END WHERE id = ?",
                (change.firing.severity, change.firing.value, now.timestamp(), opens, change.alert.id),
            )
        return self.find(change.alert.id)

    def _open_alert(self, firing: Firing, now: datetime) -> Alert:
        alert_id, at = str(new_id()), now.timestamp()
        rule = rule_named(firing.cause.rule)
        summary = rule.summary_for(firing.cause.labels) if rule else firing.cause.rule
        self._connection.execute(
            "INSERT INTO alerts (id, rule, labels, severity, status, summary, value, opened_at, last_seen_at)"
            " VALUES (?, ?, ?, ?, 'open', ?, ?, ?, ?)",
            (alert_id, firing.cause.rule, _labels(firing.cause), firing.severity, summary, firing.value, at, at),
        )
        return self.find(alert_id)

    def _note(self, what: What, alert: Alert, now: datetime) -> None:
        notice_id = str(new_id())
        body = body_of(notice_id, what, now, alert, self._runbook)
        self._connection.execute(
            "INSERT INTO notices (id, body, made_at, next_at) VALUES (?, ?, ?, ?)",
            (notice_id, body, now.timestamp(), now.timestamp()),
        )

    def _bound_notices(self) -> None:
        over = self.notices_waiting() - NOTICES_MAX
        if over > 0:
            self._connection.execute(
                "DELETE FROM notices WHERE id IN (SELECT id FROM notices ORDER BY made_at, id LIMIT ?)", (over,)
            )
            log.error("notices_left_out", count=over, reason="the webhook has been away for too long")


def _open(path: Path, now: datetime) -> sqlite3.Connection:
    """A file that can't be read is set aside: alerts must be raised, and whatever is still wrong is found again at once."""
    try:
        return open_file(path, _STEPS)
    except FileDamaged as error:
        aside = path.with_name(f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}")
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.rename(aside)
        log.error("alerts_set_aside", file=str(aside), reason=str(error))  # noqa: TRY400 - the message is the whole story
        return open_file(path, _STEPS)


def _told_as(change: Change) -> What:
    if change.what == "closed":
        return "closed"
    return "worsened" if change.what == "worsened" else "raised"


def _labels(cause: Cause) -> str:
    return json.dumps(dict(cause.labels))


def _alert(row: sqlite3.Row) -> Alert:
    return Alert(
        id=row["id"],
        rule=row["rule"],
        labels=json.loads(row["labels"]),
        severity=row["severity"],
        status=row["status"],
        summary=row["summary"],
        value=float("nan") if row["value"] is None else row["value"],
        opened_at=_time(row["opened_at"]),
        last_seen_at=_time(row["last_seen_at"]),
        acknowledged_at=_maybe(row["acknowledged_at"]),
        acknowledged_by=row["acknowledged_by"],
        note=row["note"],
        closed_at=_maybe(row["closed_at"]),
    )


def _maybe(seconds: float | None) -> datetime | None:
    return None if seconds is None else _time(seconds)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

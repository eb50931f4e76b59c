from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from farmiq.alerting.alert import Alert, Cause, Severity
from farmiq.alerting.changes import changes
from farmiq.alerting.evaluation import Evaluated, Firing, Wrong

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BACKLOG = Cause("FarmiqSyncBacklog", ())
LOST = Cause("FarmiqDataLost", (("cause", "damaged"),))
NOTHING = Evaluated({}, [], frozenset())


def alert(cause: Cause = BACKLOG, **more: Any) -> Alert:
    known: dict[str, Any] = {
        "id": "a", "rule": cause.rule, "labels": dict(cause.labels), "severity": "warning", "status": "open",
        "summary": "", "value": 1.0, "opened_at": NOW, "last_seen_at": NOW,
    }  # fmt: skip
    return Alert(**(known | more))


def firing(cause: Cause = BACKLOG, severity: Severity = "warning", *, has_grown: bool = False) -> Evaluated:
    return Evaluated({Wrong(cause, severity): 0.0}, [Firing(cause, severity, 5.0, has_grown)], frozenset())


def whats(alerts: list[Alert], evaluated: Evaluated, now: datetime = NOW) -> list[str]:
    return [change.what for change in changes(alerts, evaluated, now)]


def test_a_new_cause_is_raised_once() -> None:
    assert whats([], firing()) == ["raised"]
    assert whats([alert()], firing()) == []


def test_that_it_is_still_there_is_noted_once_a_minute() -> None:
    assert whats([alert()], firing(), NOW + timedelta(seconds=59)) == []
    assert whats([alert()], firing(), NOW + timedelta(seconds=60)) == ["seen"]


def test_one_that_gets_worse_is_told_again_and_one_that_gets_better_is_not() -> None:
    assert whats([alert(status="acknowledged")], firing(severity="critical")) == ["worsened"]
    assert whats([alert(severity="critical")], firing()) == ["seen"]


def test_a_cause_that_is_gone_closes_its_alert_acknowledged_or_not() -> None:
    assert whats([alert()], NOTHING) == ["closed"]
    assert whats([alert(status="acknowledged")], NOTHING) == ["closed"]


def test_a_figure_that_is_not_known_closes_nothing() -> None:
    assert whats([alert()], Evaluated({}, [], frozenset({"FarmiqSyncBacklog"}))) == []


def test_a_cause_that_has_not_lasted_since_this_process_began_is_not_over() -> None:
    assert whats([alert()], Evaluated({Wrong(BACKLOG, "warning"): 0.0}, [], frozenset())) == []


def test_samples_that_were_lost_stay_open_until_somebody_knows() -> None:
    assert whats([alert(LOST)], NOTHING) == []
    assert whats([alert(LOST, status="acknowledged")], NOTHING) == ["closed"]


@pytest.mark.parametrize(("has_grown", "expected"), [(True, ["raised_again"]), (False, [])])
def test_more_of_what_somebody_knew_of_is_told_again(has_grown: bool, expected: list[str]) -> None:
    known = alert(LOST, severity="critical", status="acknowledged")
    assert whats([known], firing(LOST, "critical", has_grown=has_grown)) == expected


def test_an_alert_of_a_rule_that_this_version_does_not_have_is_closed() -> None:
    assert whats([alert(Cause("FarmiqOfLastYear", ()))], NOTHING) == ["closed"]

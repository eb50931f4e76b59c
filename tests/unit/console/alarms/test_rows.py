from datetime import UTC, datetime, timedelta

from farmiq.alerting import Alert
from farmiq.alerting.alert import Severity
from farmiq.console.alarms.rows import EdgeAlert, in_order, of_edge, of_rule

NOW = datetime(2026, 7, 1, tzinfo=UTC)


def test_the_worst_comes_first_and_of_those_the_newest() -> None:
    def rule(name: str, severity: Severity, minutes: int) -> Alert:
        at = NOW - timedelta(minutes=minutes)
        return Alert(
            id=name, rule=name, labels={}, severity=severity, status="open", summary="", value=1.0, opened_at=at,
            last_seen_at=at,
        )  # fmt: skip

    edge = EdgeAlert("e", "picture_missing", "one is missing", "open", NOW, NOW)
    rows = [
        of_rule(rule("old", "warning", 50)),
        of_edge(edge),
        of_rule(rule("worst", "critical", 90)),
        of_rule(rule("bad", "critical", 10)),
    ]
    assert [row.id for row in in_order(rows)] == ["bad", "worst", "e", "old"]


def test_both_kinds_say_what_was_seen() -> None:
    edge = of_edge(EdgeAlert("e", "kind", "subject", "acknowledged", NOW, NOW, evidence={"media": 1}, note="known"))
    assert (edge.source, edge.name, edge.summary, edge.evidence, edge.note) == (
        "edge", "kind", "subject", {"media": 1}, "known",
    )  # fmt: skip
    alert = Alert(
        id="r", rule="FarmiqDataLost", labels={"cause": "disk"}, severity="critical", status="open", summary="lost",
        value=37.0, opened_at=NOW, last_seen_at=NOW,
    )  # fmt: skip
    assert of_rule(alert).evidence == {"cause": "disk", "value": 37.0}


def test_an_alert_leads_to_its_session_its_device_and_its_page() -> None:
    session = "01890000-0000-7000-8000-000000000000"
    evidence = {"session_id": session, "device_id": "station-1", "missing": {}}
    row = of_edge(EdgeAlert("e", "weigh_session_incomplete", "s", "open", NOW, NOW, evidence=evidence))
    assert [lead.path for lead in row.leads] == [
        f"/sessions/{session}", "/sessions?status=incomplete&range=1y", "/devices/station-1",
    ]  # fmt: skip
    hostile = {"session_id": "../people", "device_id": "javascript:alert(1)"}
    assert of_edge(EdgeAlert("e", "picture_missing", "s", "open", NOW, NOW, evidence=hostile)).leads == ()


def test_what_is_closed_is_not_red() -> None:
    alert = Alert(
        id="r", rule="FarmiqDataLost", labels={}, severity="critical", status="closed", summary="lost", value=37.0,
        opened_at=NOW, last_seen_at=NOW, closed_at=NOW,
    )  # fmt: skip
    assert of_rule(alert).kind == "good"

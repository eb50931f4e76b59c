from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from farmiq.alerting.alert import Alert


class Counters:
    """What the metrics show of the alerts themselves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._alerts = Gauge(
            "farmiq_alerts",
            "Alerts that are not closed, by status and severity.",
            ["status", "severity"],
            registry=registry,
        )
        self.notices = Counter(
            "farmiq_alert_notices", "Calls of the webhook, by how they ended.", ["outcome"], registry=registry
        )
        self.notices_waiting = Gauge(
            "farmiq_alert_notices_waiting", "Notices that the webhook has not taken.", registry=registry
        )
        self.not_scraped = Counter(
            "farmiq_scrapes_failed", "Times a service did not show its metrics.", ["service"], registry=registry
        )
        for outcome in ("taken", "put_off", "given_up"):
            self.notices.labels(outcome)

    def stand(self, alerts: Sequence[Alert]) -> None:
        for status in ("open", "acknowledged"):
            for severity in ("warning", "critical"):
                found = sum(alert.status == status and alert.severity == severity for alert in alerts)
                self._alerts.labels(status, severity).set(found)

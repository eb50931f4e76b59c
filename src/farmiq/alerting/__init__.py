"""Alerts: what a person has to be told, raised without Prometheus and the same as with it.

In:       `/metrics` of the services, asked every `ALERT_INTERVAL_SECONDS`, and the free space of some disks.
Out:      alerts in a SQLite file, which the console shows; a JSON POST for each that opens, gets worse or closes, if
          `ALERT_WEBHOOK_URL` is set; `deploy/prometheus/farmiq-alerts.yml`, made from the same rules.
Promises: one alert for one cause until it is closed, through any restart; an alert that was raised is told to the webhook
          although the process is killed in between; a figure that is not known closes nothing; samples that were lost stay
          an open alert until a person has said that they know.
Away:     a service that does not answer is an alert itself. A webhook that does not answer is tried again for a day.

`rules` (the rules, as data) and `expressions` (what they may ask, and as PromQL), `examples` (series, and what each must
raise), `history` and `evaluation` (pure: from samples over time to what is wrong), `changes` (pure: what becomes of the
alerts), `store` (SQLite), `scrape`, `webhook` and `courier` (the way out), `disks`, `keeping` (the loop), `dashboards` and
`export` (the files in `deploy/`).
"""

from farmiq.alerting.alert import Alert, AlertStatus
from farmiq.alerting.keeping import keep_alerts
from farmiq.alerting.rules import RULES, Rule, rule_named
from farmiq.alerting.settings import AlertSettings
from farmiq.alerting.store import AlertStore
from farmiq.alerting.webhook import Webhook, webhook_of

__all__ = [
    "RULES",
    "Alert",
    "AlertSettings",
    "AlertStatus",
    "AlertStore",
    "Rule",
    "Webhook",
    "keep_alerts",
    "rule_named",
    "webhook_of",
]

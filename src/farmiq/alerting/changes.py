"""What becomes of the alerts after a look at the metrics. Pure: the store carries it out."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from farmiq.alerting.alert import Alert, Severity
from farmiq.alerting.evaluation import Evaluated, Firing
from farmiq.alerting.rules import rule_named

SEEN_EVERY: Final = timedelta(minutes=1)
"""How often it is noted that a cause is still there: more would only wear out the disk of a small box."""

_ORDER: Final[dict[Severity, int]] = {"warning": 0, "critical": 1}


class Change(Struct, frozen=True, kw_only=True):
    """`raised` has no alert yet. `raised_again` opens one that a person knew of: there is more of it."""

    what: Literal["raised", "raised_again", "worsened", "seen", "closed"]
    alert: Alert | None = None
    firing: Firing | None = None


def changes(alerts: Sequence[Alert], evaluated: Evaluated, now: datetime) -> list[Change]:
    """`alerts` are those that are not closed."""
    known = {alert.cause: alert for alert in alerts}
    firing = {one.cause: one for one in evaluated.firing}
    found = [change for one in evaluated.firing if (change := _of_firing(known.get(one.cause), one, now)) is not None]
    over = [alert for alert in alerts if alert.cause not in firing and _is_over(alert, evaluated)]
    return found + [Change(what="closed", alert=alert) for alert in over]


def _of_firing(alert: Alert | None, firing: Firing, now: datetime) -> Change | None:
    if alert is None:
        return Change(what="raised", firing=firing)
    if _ORDER[firing.severity] > _ORDER[alert.severity]:
        return Change(what="worsened", alert=alert, firing=firing)
    if alert.status == "acknowledged" and firing.has_grown:
        return Change(what="raised_again", alert=alert, firing=firing)
    if firing.severity != alert.severity or now - alert.last_seen_at >= SEEN_EVERY:
        return Change(what="seen", alert=alert, firing=firing)
    return None


def _is_over(alert: Alert, evaluated: Evaluated) -> bool:
    rule = rule_named(alert.rule)
    if rule is None:
        return True
    # Wrong, and for not long enough: this process has begun lately and does not know how long it has been.
    if alert.cause in evaluated.wrong or alert.rule in evaluated.unknown:
        return False
    return not rule.stays_until_acknowledged or alert.status == "acknowledged"

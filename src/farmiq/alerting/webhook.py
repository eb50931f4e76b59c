"""What is told to the outside, and how a receiver knows that it is we who tell it."""

import hashlib
import hmac
from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from farmiq.alerting.alert import Alert
from farmiq.alerting.rules import runbook_url
from farmiq.alerting.settings import AlertSettings

SIGNATURE_HEADER: Final = "x-farmiq-signature"
TIMESTAMP_HEADER: Final = "x-farmiq-timestamp"
NOTICE_HEADER: Final = "x-farmiq-notice-id"

What = Literal["raised", "worsened", "closed"]


class Webhook(Struct, frozen=True):
    url: str
    secret: str | None = None

    def __repr__(self) -> str:
        return "Webhook(***)"


class Told(Struct, frozen=True):
    """The alert as a receiver gets it."""

    id: str
    name: str
    severity: str
    status: str
    labels: dict[str, str]
    summary: str
    value: float
    opened_at: datetime
    closed_at: datetime | None
    runbook_url: str


class Notice(Struct, frozen=True):
    """The body of one call. It may come more than once, with the same id."""

    id: str
    what: What
    at: datetime
    alert: Told


def webhook_of(settings: AlertSettings) -> Webhook | None:
    if settings.alert_webhook_url is None:
        return None
    return Webhook(settings.alert_webhook_url, settings.alert_webhook_secret)


def body_of(notice_id: str, what: What, at: datetime, alert: Alert, runbook: str | None = None) -> bytes:
    told = Told(
        alert.id,
        alert.rule,
        alert.severity,
        alert.status,
        alert.labels,
        alert.summary,
        alert.value,
        alert.opened_at,
        alert.closed_at,
        runbook_url(alert.rule, runbook),
    )
    return msgspec.json.encode(Notice(notice_id, what, at, told))


def headers_of(webhook: Webhook, notice_id: str, body: bytes, at: datetime) -> dict[str, str]:
    stamp = str(int(at.timestamp()))
    headers = {"content-type": "application/json", NOTICE_HEADER: notice_id, TIMESTAMP_HEADER: stamp}
    if webhook.secret is not None:
        headers[SIGNATURE_HEADER] = f"sha256={signature(webhook.secret, stamp, body)}"
    return headers


def signature(secret: str, stamp: str, body: bytes) -> str:
    """The time is signed too, so that a call that somebody has kept can't be played again later."""
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()

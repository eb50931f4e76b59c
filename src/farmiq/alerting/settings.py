from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import Secret, Settings


class AlertSettings(Settings, frozen=True, kw_only=True):
    """Read by the service that evaluates the alerts, which is the console."""

    alert_interval_seconds: Annotated[float, Meta(ge=1, le=300)] = 15.0
    """How often the metrics of all services are read and the alerts judged."""
    alert_webhook_url: (
        Annotated[str, Meta(pattern=r"^https?://", description="an address that starts with http:// or https://")]
        | None
    ) = None
    """Called when an alert opens and when it closes."""
    alert_runbook_url: (
        Annotated[str, Meta(pattern=r"^https?://", description="an address that starts with http:// or https://")]
        | None
    ) = None
    """Where docs/operations/runbook.md is published: `runbook_url` in a call then leads to the alert's entry there."""
    alert_disks: tuple[str, ...] = ()
    """Folders whose disks are watched besides the console's own, with commas between them: those of PostgreSQL and of the object
    store, where they are on this machine."""
    alert_webhook_secret: Secret | None = None
    """Signs each call: `x-farmiq-signature` is the HMAC-SHA256 of the time in `x-farmiq-timestamp`, a dot, and the body."""

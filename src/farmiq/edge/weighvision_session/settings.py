from datetime import timedelta
from typing import Annotated

from msgspec import Meta

from farmiq.edge.weighvision_session.watch import Patience
from farmiq.kit.settings import AdminToken, DatabaseUrl, HttpSettings, Port, Positive, Settings


class SessionSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5105
    database_url: DatabaseUrl
    admin_token: AdminToken
    session_incomplete_minutes: Annotated[float, Meta(gt=0, le=10_080)] = 10.0
    """How long pictures, or the end of a session, may be outstanding until it is incomplete and an alert is raised."""
    # A picture is verified and looked at by the model within seconds; without a model the cloud is told this much later.
    session_settle_seconds: Annotated[float, Meta(ge=0, le=3600)] = 15.0
    """How long the end of a session waits for its pictures and for inference before the cloud is told."""
    session_unbound_hours: Annotated[float, Meta(gt=0, le=8760)] = 72.0
    """How long stored pictures may wait for the first word about their session until it is incomplete. As long as a station keeps
    its words while MQTT is away."""

    @property
    def patience(self) -> Patience:
        return Patience(
            incomplete=timedelta(minutes=self.session_incomplete_minutes),
            settle=timedelta(seconds=self.session_settle_seconds),
            unbound=timedelta(hours=self.session_unbound_hours),
        )


class SessionRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    session_retention_days: Positive = 365
    """Closed sessions to which nothing came for so long. Never one that is open or incomplete."""
    media_retention_days: Positive = 90
    """As `edge-media-store` has it: a session stays at least as long as its pictures, which ask whether it is over."""

    @property
    def kept_days(self) -> int:
        return max(self.session_retention_days, self.media_retention_days + 1)

from typing import Annotated, Literal

from msgspec import Meta

from farmiq.cloud.telemetry_service.unsent import Plan
from farmiq.kit.settings import AdminToken, AmqpUrl, DatabaseUrl, HttpSettings, Port, Positive, Settings

EventWindow = Literal["1m", "1h", "1d"]


class TelemetryServiceSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5202
    database_url: DatabaseUrl
    amqp_url: AmqpUrl
    admin_token: AdminToken
    consume_batch_messages: Annotated[int, Meta(ge=1, le=2000)] = 200
    """At most so many messages in one transaction."""
    consume_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
    """How long a transaction waits for more messages."""
    aggregated_event_windows: Annotated[
        tuple[EventWindow, ...], Meta(min_length=1, description="1m, 1h or 1d, several with commas between them")
    ] = ("1h", "1d")
    """Of which windows the bus is told when they have closed, and again when late samples changed them."""
    aggregated_event_grace_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 60
    """How long after a window has closed, or late samples came, the bus is told of it."""

    @property
    def announced(self) -> Plan:
        return Plan(self.aggregated_event_windows, self.aggregated_event_grace_seconds)


class EventRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    device_event_retention_days: Positive = 365
    """Events of types that have no table of their own, by the month of their time."""
    sync_batch_retention_days: Positive = 90
    """What edges said about their sending."""
    weighing_retention_days: Annotated[int, Meta(ge=0, description="days; 0 keeps them for ever")] = 0
    """Weights, pictures that were taken, inference results and the sessions that they belong to."""

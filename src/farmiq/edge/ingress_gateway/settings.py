from typing import Annotated

from msgspec import Meta

from farmiq.edge.telemetry_timeseries.sync_mode import SyncMode, SyncPlan, SyncWindow
from farmiq.kit.settings import HttpSettings, Port, Positive, Secret, Settings


class GatewaySettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5103
    database_url: Secret
    mqtt_url: Secret
    admin_token: Secret
    ingress_batch_messages: Annotated[int, Meta(ge=1, le=5000)] = 500
    ingress_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
    ingress_ack_interval_ms: Annotated[int, Meta(ge=0, le=5000)] = 100
    telemetry_sync_mode: Annotated[SyncMode, Meta(description="what the cloud is told: raw, aggregated or both")] = (
        "raw"
    )
    telemetry_sync_window: Annotated[SyncWindow, Meta(description="which aggregates: 1m, 1h or 1d")] = "1m"
    telemetry_sync_settle_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 30
    """How long after its window closed, or after late samples came, an aggregate is sent."""

    @property
    def sync_plan(self) -> SyncPlan:
        return SyncPlan(self.telemetry_sync_mode, self.telemetry_sync_window, self.telemetry_sync_settle_seconds)


class CleanupSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    ingress_dedupe_ttl_hours: Positive = 72
    ingress_rejected_ttl_hours: Positive = 168
    ingress_rejected_rows_max: Annotated[int, Meta(ge=1000)] = 20_000
    """Each row holds up to 64 KiB of what a device sent."""

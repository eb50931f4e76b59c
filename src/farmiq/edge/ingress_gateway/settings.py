from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta

from farmiq.edge.disk import DiskSettings
from farmiq.edge.ingress_gateway.quotas import Limit
from farmiq.edge.telemetry_timeseries.sync_mode import SyncMode, SyncPlan, SyncWindow
from farmiq.kit.settings import AdminToken, DatabaseUrl, Id, MqttUrl, Port, Positive, Settings
from farmiq.timeseries.stream import StreamLimit

STREAMS_WINDOW: Final = timedelta(days=30)


class GatewaySettings(DiskSettings, frozen=True, kw_only=True):
    port: Port = 5103
    database_url: DatabaseUrl
    mqtt_url: MqttUrl
    admin_token: AdminToken
    ingress_batch_messages: Annotated[int, Meta(ge=1, le=5000)] = 500
    """At most so many messages in one transaction."""
    ingress_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
    """How long a transaction waits for more messages."""
    ingress_ack_interval_ms: Annotated[int, Meta(ge=0, le=5000)] = 100
    """A device is told at most once in this time; what was stored meanwhile is one acknowledgement."""
    edge_clock_is_trusted: bool = False
    """True where devices without a clock shall follow this machine's clock although its kernel knows of no time service: on a
    farm without a time server, for instance, or in a virtual machine whose host keeps the time. Else they follow it only while
    a time service keeps it right, or has done so since the machine started."""
    ingress_device_messages_per_second: Positive = 500
    """Messages that one device may send in a second, on average. A node's batch of many samples is one message."""
    ingress_device_bytes_per_second: Positive = 8_000_000
    """Bytes that one device may send in a second, on average."""
    ingress_tenant_messages_per_second: Positive = 10_000
    """Messages that all devices of one tenant together may send in a second, on average."""
    ingress_tenant_bytes_per_second: Positive = 100_000_000
    """Bytes that all devices of one tenant together may send in a second, on average."""
    ingress_burst_seconds: Positive = 20
    """So many seconds' worth of a limit may come at once: a device that was offline catches up."""
    ingress_shut_out_seconds: Positive = 30
    """How long a device is shut out that goes on sending more than twice its limit."""
    ingress_device_streams_max: Positive = 100
    """Streams that one device may open in 30 days. A node opens one when its spool is new, so a handful in its life."""
    ingress_tenant_streams_max: Positive = 20_000
    """Streams that all devices of one tenant together may open in 30 days."""
    mqtt_canary_url: MqttUrl | None = None
    """The broker with the login of the canary, whose test messages go the way of devices' messages. Not set: no test messages."""
    canary_interval_seconds: Annotated[int, Meta(ge=1, le=600)] = 30
    """Time between two rounds of test messages; one that is not acknowledged within it counts as lost."""
    telemetry_sync_mode: Annotated[SyncMode, Meta(description="what the cloud is told: raw, aggregated or both")] = (
        "raw"
    )
    telemetry_sync_window: Annotated[SyncWindow, Meta(description="which aggregates: 1m, 1h or 1d")] = "1m"
    telemetry_sync_settle_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 30
    """How long after its window closed, or after late samples came, an aggregate is sent."""

    mqtt_device_url: Annotated[str, Meta(min_length=1, description="mqtt://host:port, or mqtts:// for TLS")] | None = (
        None
    )
    """Where devices log in, told to whoever adds one. Not set: the host and port of MQTT_URL."""
    broker_logins_kept: bool = False
    """True where the broker's files follow the register by themselves, as `farmiq up` does. Else a person is told what to add."""
    fixed_devices: tuple[Id, ...] = ()
    """Devices whose secrets are made elsewhere: they can be neither rotated nor revoked over HTTP."""

    @property
    def device_limit(self) -> Limit:
        return Limit(
            self.ingress_device_messages_per_second, self.ingress_device_bytes_per_second, self.ingress_burst_seconds
        )

    @property
    def tenant_limit(self) -> Limit:
        return Limit(
            self.ingress_tenant_messages_per_second, self.ingress_tenant_bytes_per_second, self.ingress_burst_seconds
        )

    @property
    def streams_max(self) -> StreamLimit:
        return StreamLimit(self.ingress_device_streams_max, self.ingress_tenant_streams_max, STREAMS_WINDOW)

    @property
    def sync_plan(self) -> SyncPlan:
        return SyncPlan(self.telemetry_sync_mode, self.telemetry_sync_window, self.telemetry_sync_settle_seconds)


class CleanupSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    ingress_dedupe_ttl_hours: Positive = 72
    """How long the id of a message is remembered."""
    ingress_rejected_ttl_hours: Positive = 168
    """How long a rejected message can be looked at."""
    ingress_rejected_rows_max: Annotated[int, Meta(ge=1000)] = 20_000
    """Each row holds up to 64 KiB of what a device sent."""
    ingress_rejected_rows_per_device_max: Annotated[int, Meta(ge=10)] = 2_000
    """Of one device: nobody's rejected messages push out those of others."""

from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import Id, MqttUrl, Positive, Settings
from farmiq.spool import SyncPolicy

GIB = 1 << 30


class ForwarderSettings(Settings, frozen=True, kw_only=True):
    tenant_id: Id
    """Whose node this is."""
    farm_id: Id
    """Where it stands."""
    barn_id: Id
    """Where it stands."""
    device_id: Id
    """Who this node is. It is also its name at the broker."""
    mqtt_url: MqttUrl
    node_forwarder_socket: str
    """The Unix socket on which it takes samples from node-agent."""
    node_forwarder_spool_dir: str
    """The folder of the spool, on a disk that keeps what was synced."""
    # Unset: min(max(1 GiB, 5 % of the file system), 25 GiB).
    node_forwarder_max_spool_bytes: Annotated[int, Meta(ge=16 * 1024)] | None = None
    node_forwarder_keep_free_bytes: Annotated[int, Meta(ge=0)] = 2 * GIB
    """The spool stops growing, and gives up its oldest samples, before the file system has less than this."""
    # Unset: samples are kept until the space is needed, however old they are.
    node_forwarder_max_spool_age_seconds: Positive | None = None
    node_forwarder_sync: SyncPolicy = SyncPolicy.GROUP
    """When a sample counts as stored: after its own sync, after that of its group, or when the operating system has it."""
    node_forwarder_sync_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50
    """How long a group collects before it is synced."""
    node_forwarder_batch_samples: Annotated[int, Meta(ge=1, le=5000)] = 500
    """At most so many samples in one message."""
    node_forwarder_batch_ms: Annotated[int, Meta(ge=1, le=10_000)] = 200
    """How long live samples wait for others before they are sent."""
    replay_msgs_per_sec: Positive = 2000
    """At most so many messages of the backlog."""
    replay_bytes_per_sec: Positive = 4_000_000
    """At most so many bytes of the backlog."""
    # An acknowledgement that got lost on the way is asked for by sending again.
    node_forwarder_resend_seconds: Positive = 15
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

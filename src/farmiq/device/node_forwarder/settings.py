from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import Id, Positive, Secret, Settings
from farmiq.spool import SyncPolicy

GIB = 1 << 30


class ForwarderSettings(Settings, frozen=True, kw_only=True):
    tenant_id: Id
    farm_id: Id
    barn_id: Id
    device_id: Id
    mqtt_url: Secret
    node_forwarder_socket: str
    node_forwarder_spool_dir: str
    # Unset: min(max(1 GiB, 5 % of the file system), 25 GiB).
    node_forwarder_max_spool_bytes: Annotated[int, Meta(ge=16 * 1024)] | None = None
    node_forwarder_keep_free_bytes: Annotated[int, Meta(ge=0)] = 2 * GIB
    # Unset: samples are kept until the space is needed, however old they are.
    node_forwarder_max_spool_age_seconds: Positive | None = None
    node_forwarder_sync: SyncPolicy = SyncPolicy.GROUP
    node_forwarder_sync_ms: Annotated[int, Meta(ge=0, le=10_000)] = 50
    node_forwarder_batch_samples: Annotated[int, Meta(ge=1, le=5000)] = 500
    node_forwarder_batch_ms: Annotated[int, Meta(ge=1, le=10_000)] = 200
    replay_msgs_per_sec: Positive = 2000
    replay_bytes_per_sec: Positive = 4_000_000
    # An acknowledgement that got lost on the way is asked for by sending again.
    node_forwarder_resend_seconds: Positive = 15
    log_level: str = "INFO"

from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

from msgspec import Meta

from farmiq.contracts.limits import EDGE_BATCH_BYTES_MAX, EDGE_BATCH_EVENTS_MAX
from farmiq.edge.sync_forwarder.compression import Compression
from farmiq.kit.due_times import DELAY_SECONDS_MAX
from farmiq.kit.settings import BadSettings, DatabaseUrl, HttpSettings, Id, Port, Positive, Secret, Settings
from farmiq.outbox.verdicts import RetryPolicy

BATCH_ROUTE = "/api/v1/edge/batch"
PAUSE_SECONDS_MAX = 60.0


class SyncForwarderSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5108
    database_url: DatabaseUrl
    cloud_ingestion_url: Annotated[
        str,
        Meta(
            pattern=r"^https?://[^\s]+\Z",
            description="the URL of the cloud's POST /api/v1/edge/batch, or of cloud-ingestion itself",
        ),
    ]
    cloud_ingestion_token: Secret
    """Who this edge is to the cloud: `farmiq edge add` prints it."""
    edge_cluster_id: Id
    """The name that the token was made for."""
    edge_data_dir: str | None = None
    """A folder on the disk that fills up while the cloud is away: the database's, or that of the pictures. Only its free room
    is looked at, and told in `GET /api/v1/sync/room`."""
    outbox_batch_size: Annotated[int, Meta(ge=1, le=EDGE_BATCH_EVENTS_MAX)] = 100
    """At most so many events in one request."""
    outbox_lease_seconds: Positive = 120
    """How long events belong to the replica that claimed them. It is renewed while they are sent. More than an hour counts as
    one."""
    outbox_max_attempts: Positive = 10
    """Then an event that the cloud refuses is a dead letter. A cloud that is away costs none."""
    outbox_backoff_cap_seconds: Positive = 300
    """The longest wait between two attempts. More than an hour counts as one."""
    sync_interval_ms: Positive = 60_000
    """How often it looks for events if nobody woke it."""
    sync_requests_in_flight: Annotated[int, Meta(ge=1, le=32)] = 4
    """To the cloud at the same time, also for one tenant: a farm has one tenant and a long way to the cloud. The order inside
    a tenant is then that in which requests set out; 1 makes it that in which they arrive, as far as one replica goes."""
    sync_request_bytes_max: Annotated[int, Meta(ge=64 * 1024, le=EDGE_BATCH_BYTES_MAX // 2)] = EDGE_BATCH_BYTES_MAX // 2
    """Before compression. Half of what the cloud takes leaves room for the frame around the events."""
    sync_request_seconds: Positive = 30
    """Until a request counts as unanswered. It may be longer than the lease, which is renewed meanwhile."""
    sync_epoch_seconds: Annotated[int, Meta(ge=1, le=3600)] = 300
    """How long nothing may be heard of the cloud, because nothing is sent, until it is asked whether it was restored."""
    sync_compression: Compression = "zstd"
    """A cloud that answers 415 to zstd gets gzip from then on."""
    sync_batch_events_seconds: Annotated[int, Meta(ge=0)] = 60
    """One pair of `sync.batch.sent` and `sync.batch.acked` for a tenant in this time; 0 sends none."""
    cloud_media_url: (
        Annotated[str, Meta(pattern=r"^https?://[^\s]+\Z", description="the URL of cloud-media-store")] | None
    ) = None
    """Without it pictures stay at the edge, and their rows wait."""
    s3_endpoint: Annotated[str, Meta(min_length=1)] | None = None
    """The object store of the edge, where pictures are read."""
    s3_access_key: Secret | None = None
    """Who we are there."""
    s3_secret_key: Secret | None = None
    """The other half of the key."""
    s3_region: str = "us-east-1"
    """Signed into every request; stores of your own mostly take any."""
    media_sync_parallel: Annotated[int, Meta(ge=1, le=32)] = 2
    """Pictures that are sent at the same time."""
    media_sync_bytes_in_flight: Annotated[int, Meta(ge=1024 * 1024)] = 32 * 1024 * 1024
    """Of pictures that are being sent, all together. A larger picture goes alone."""
    media_sync_bytes_per_second: Annotated[int, Meta(ge=0)] = 1_000_000
    """Of one replica; 0 is no limit. Set it to what the uplink can spare besides the events."""
    media_sync_wanted_seconds: Positive = 600
    """How often the cloud is asked which pictures it misses."""
    media_sync_stall_seconds: Positive = 30
    """Until an upload of which no byte moves counts as broken off."""
    internal_admin_enabled: bool = False
    """Opens the routes that redrive dead letters."""
    admin_token: Secret | None = None
    """Opens these routes, and those that name events and pictures of every tenant. Needed with INTERNAL_ADMIN_ENABLED."""

    def __post_init__(self) -> None:
        if self.cloud_media_url and not (self.s3_endpoint and self.s3_access_key and self.s3_secret_key):
            raise BadSettings(
                "CLOUD_MEDIA_URL needs S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY of the edge's object store"
            )
        if self.internal_admin_enabled and self.admin_token is None:
            raise BadSettings("ADMIN_TOKEN is missing: INTERNAL_ADMIN_ENABLED opens routes that need it")

    @property
    def batch_url(self) -> str:
        """`farmiq env` names the service, the document its route: both are understood."""
        parts = urlsplit(self.cloud_ingestion_url)
        return urlunsplit(parts._replace(path=BATCH_ROUTE)) if parts.path in ("", "/") else self.cloud_ingestion_url

    @property
    def retry_policy(self) -> RetryPolicy:
        cap_seconds = min(self.outbox_backoff_cap_seconds, DELAY_SECONDS_MAX)
        return RetryPolicy(attempts_max=self.outbox_max_attempts, backoff_cap_seconds=cap_seconds)

    @property
    def lease_seconds(self) -> float:
        return min(self.outbox_lease_seconds, DELAY_SECONDS_MAX)

    @property
    def pause_cap_seconds(self) -> float:
        """An uplink that is back should not wait five minutes to be noticed, and one probe a minute costs nothing."""
        return min(PAUSE_SECONDS_MAX, self.outbox_backoff_cap_seconds)


class OutboxRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the job, in the service and in `farmiq jobs run`."""

    outbox_retention_days: Positive = 30
    """Acknowledged samples and aggregates, from their acknowledgement on; they stay in tables of their own for longer. No event
    that is not acknowledged is ever deleted."""
    outbox_event_retention_days: Positive = 365
    """All other acknowledged events: a cloud that was restored gets them from the outbox alone."""

from typing import Annotated

from msgspec import Meta

from farmiq.contracts.limits import EDGE_BATCH_BYTES_MAX
from farmiq.kit.settings import AmqpUrl, DatabaseUrl, HttpSettings, Port, Positive, Secret, Settings


class IngestionSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5201
    database_url: DatabaseUrl
    amqp_url: AmqpUrl
    ingestion_body_bytes_max: Annotated[int, Meta(ge=1024)] = EDGE_BATCH_BYTES_MAX
    """As it comes over the wire. What it inflates to is bounded by the contract."""
    ingestion_body_seconds_max: Positive = 30
    """Until a request whose body does not come is given up."""
    ingestion_requests_max: Positive = 32
    """At the same time, in one replica. More are told to come back, so that memory stays bounded."""
    ingestion_edge_batches_per_second: Positive = 200
    """Of one edge, in one replica, with twice as many at once after a pause. More are told to come back."""
    admin_token: Secret = ""
    """For the routes about dead letters, of which there are none without it, and for the statistics."""
    expand_telemetry_batches: bool = False
    """Publish each sample of a pack as a `telemetry.ingested` of its own as well, for consumers that know no packs."""


class DiscardRetentionSettings(Settings, frozen=True, kw_only=True):
    discarded_letters_retention_days: Positive = 90
    """How long what was discarded from the dead letters can still be looked up. That it was discarded is never forgotten."""


class DedupeRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the job, in the service and in `farmiq jobs run`."""

    ingest_dedupe_retention_days: Positive = 90
    """Longer than an edge keeps a backup that it may be restored from: such an edge sends again what it had sent."""


class SessionOwnerRetentionSettings(Settings, frozen=True, kw_only=True):
    """As the other one, and never shorter: what may still come again is still judged by the edge that began its session."""

    session_owner_retention_days: Positive = 400
    """Longer than an edge keeps a weigh session (`SESSION_RETENTION_DAYS`, 365): until then it may tell of its end."""

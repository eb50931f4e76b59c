"""RabbitMQ names: exchanges, queues, dead-letter queues, and which routing keys reach which queue. Pure data.

    farmiq.{domain}.exchange             topic exchanges; the domain is the first word of the event type
    farmiq.{service}.{purpose}.queue     one for each service that consumes; nothing is bound to a queue that nobody reads
    farmiq.{service}.dlq.queue           reached through the default exchange, so it needs no binding
    farmiq.tenants.exchange              a headers exchange: copies of events for programs that read one tenant

Routing keys are event types.

`telemetry.aggregated` has two producers: cloud-telemetry-service, and edges that send aggregates instead of samples. So it
reaches cloud-telemetry-service too, which takes those that an edge sent, as `EDGE_HEADER` says.
"""

from typing import Final

from msgspec import Struct

from farmiq.contracts import event_types

TELEMETRY_EXCHANGE: Final = "farmiq.telemetry.exchange"
WEIGHVISION_EXCHANGE: Final = "farmiq.weighvision.exchange"
MEDIA_EXCHANGE: Final = "farmiq.media.exchange"
INFERENCE_EXCHANGE: Final = "farmiq.inference.exchange"
SYNC_EXCHANGE: Final = "farmiq.sync.exchange"
EVENT_EXCHANGE: Final = "farmiq.event.exchange"
"""Every event type of another domain: a device may send events that we have never heard of, and they are kept."""

EXCHANGES: Final = (
    TELEMETRY_EXCHANGE,
    WEIGHVISION_EXCHANGE,
    MEDIA_EXCHANGE,
    INFERENCE_EXCHANGE,
    SYNC_EXCHANGE,
    EVENT_EXCHANGE,
)

TENANTS_EXCHANGE: Final = "farmiq.tenants.exchange"
"""Copies of the events of tenants whose events somebody reads; what reaches whom is decided by `TENANT_HEADER`."""

TELEMETRY_INGEST_QUEUE: Final = "farmiq.cloud-telemetry-service.ingest.queue"
ANALYTICS_KPI_QUEUE: Final = "farmiq.cloud-analytics-service.kpi.queue"
MEDIA_STORE_QUEUE: Final = "farmiq.cloud-media-store.store.queue"

EDGE_HEADER: Final = "x-edge-cluster-id"
"""Which edge sent the event, from its credential. Whatever is published in the cloud itself has none."""
EXPANDED_HEADER: Final = "x-expanded-from"
"""On the single-sample form of a pack: the pack's event id. Who has the pack needs none of these."""

TENANT_HEADER: Final = "farmiq-tenant-id"
"""On copies in `TENANTS_EXCHANGE`. A headers exchange compares no header whose name begins with `x-`."""


class Binding(Struct, frozen=True):
    exchange: str
    queue: str
    routing_key: str


BINDINGS: Final = (
    Binding(TELEMETRY_EXCHANGE, TELEMETRY_INGEST_QUEUE, event_types.TELEMETRY_INGESTED),
    Binding(TELEMETRY_EXCHANGE, TELEMETRY_INGEST_QUEUE, event_types.TELEMETRY_BATCH_INGESTED),
    Binding(TELEMETRY_EXCHANGE, TELEMETRY_INGEST_QUEUE, event_types.TELEMETRY_LOSS),
    Binding(TELEMETRY_EXCHANGE, TELEMETRY_INGEST_QUEUE, event_types.TELEMETRY_AGGREGATED),
    Binding(WEIGHVISION_EXCHANGE, TELEMETRY_INGEST_QUEUE, "weighvision.#"),
    Binding(INFERENCE_EXCHANGE, TELEMETRY_INGEST_QUEUE, "inference.#"),
    Binding(SYNC_EXCHANGE, TELEMETRY_INGEST_QUEUE, "sync.#"),
    Binding(EVENT_EXCHANGE, TELEMETRY_INGEST_QUEUE, "#"),
    Binding(TELEMETRY_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.TELEMETRY_INGESTED),
    Binding(TELEMETRY_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.TELEMETRY_BATCH_INGESTED),
    Binding(TELEMETRY_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.TELEMETRY_AGGREGATED),
    Binding(TELEMETRY_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.TELEMETRY_LOSS),
    Binding(WEIGHVISION_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.SESSION_CREATED),
    Binding(WEIGHVISION_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.SESSION_FINALIZED),
    Binding(WEIGHVISION_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.SESSION_CANCELLED),
    Binding(WEIGHVISION_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.WEIGHT_RECORDED),
    Binding(INFERENCE_EXCHANGE, ANALYTICS_KPI_QUEUE, event_types.INFERENCE_COMPLETED),
    # Whatever is about media, so that a type which we do not know yet is kept as a dead letter and not sent back to its edge.
    Binding(MEDIA_EXCHANGE, MEDIA_STORE_QUEUE, "media.#"),
)


def exchange_for(event_type: str) -> str:
    exchange = f"farmiq.{event_type.partition('.')[0]}.exchange"
    return exchange if exchange in EXCHANGES else EVENT_EXCHANGE


def bindings_of(queue: str) -> tuple[Binding, ...]:
    return tuple(binding for binding in BINDINGS if binding.queue == queue)


def dlq_for(service: str) -> str:
    return f"farmiq.{service}.dlq.queue"

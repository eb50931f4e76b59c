"""The whole of the bus, in one place: every exchange, and what each service that consumes has there."""

from typing import Final

from farmiq.cloud import bus_users
from farmiq.cloud.analytics_service import topology as analytics_service
from farmiq.cloud.media_store import topology as media_store
from farmiq.cloud.telemetry_service import topology as telemetry_service
from farmiq.contracts import bus
from farmiq.kit.amqp_topology import Exchange, Topology
from farmiq.kit.work_queue import WorkQueue

WORK_QUEUES: Final[dict[str, WorkQueue]] = {
    service.SERVICE: service.WORK_QUEUE for service in (telemetry_service, analytics_service, media_store)
}
"""By the service that empties it."""


def topology() -> Topology:
    consumers = [queue.topology() for queue in WORK_QUEUES.values()]
    return Topology(
        exchanges=(*(Exchange(name) for name in bus.EXCHANGES), bus_users.EXCHANGE),
        queues=tuple(queue for consumer in consumers for queue in consumer.queues),
        bindings=tuple(binding for consumer in consumers for binding in consumer.bindings),
    )

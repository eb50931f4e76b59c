"""What this service needs on the bus: its own queue, its dead letters, and the events that reach it."""

from farmiq.contracts import bus
from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology

SERVICE = "cloud-telemetry-service"
QUEUE = bus.TELEMETRY_INGEST_QUEUE

# RabbitMQ counts every return, also those of a consumer that was merely restarted with messages in hand. What can never be
# stored is dead-lettered by the handler at once; this is the net under a message that kills its consumer.
DELIVERY_LIMIT = 100


def topology() -> Topology:
    dead_letters = bus.dlq_for(SERVICE)
    bindings = bus.bindings_of(QUEUE)
    return Topology(
        exchanges=tuple(Exchange(name) for name in dict.fromkeys(binding.exchange for binding in bindings)),
        queues=(Queue(dead_letters), Queue(QUEUE, dead_letter_queue=dead_letters, delivery_limit=DELIVERY_LIMIT)),
        bindings=tuple(Binding(binding.exchange, QUEUE, binding.routing_key) for binding in bindings),
    )

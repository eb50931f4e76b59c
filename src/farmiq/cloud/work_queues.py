"""The work queues of the cloud's services: names and bindings from the contract, settings from the runtime."""

from farmiq.contracts import bus
from farmiq.kit.amqp_topology import Binding
from farmiq.kit.work_queue import WorkQueue


def work_queue(service: str, queue: str) -> WorkQueue:
    bindings = bus.bindings_of(queue)
    return WorkQueue(
        queue,
        dead_letter_queue=bus.dlq_for(service),
        bindings=tuple(Binding(binding.exchange, queue, binding.routing_key) for binding in bindings),
    )

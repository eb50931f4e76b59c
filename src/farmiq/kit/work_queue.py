"""What one consumer has on the bus: its queue, the queues in which failed messages wait for another try, and its dead letters.

    farmiq.{service}.{purpose}.queue             the work
    farmiq.{service}.{purpose}-retry-5s.queue    waits 5 s, then goes back to the work; likewise 30s and 5m
    farmiq.{service}.dlq.queue                   what was given up, until a person looks

A retry queue has one fixed delay for all that is in it: in a queue of mixed delays a long one in front would hold up a short one
behind it. The delay is in the name, so another schedule makes other queues and never meets one with other settings. Nobody
consumes a retry queue; RabbitMQ moves what has waited, at least once.
"""

from typing import Final

import msgspec

from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology

RETRY_SECONDS: Final = (5.0, 30.0, 300.0)

# RabbitMQ counts every return, also those of a consumer that was merely restarted with messages in hand. What fails is
# moved by the consumer itself; this is the net under a message that kills its consumer.
DELIVERY_LIMIT: Final = 100


class WorkQueue(msgspec.Struct, frozen=True):
    name: str
    dead_letter_queue: str
    bindings: tuple[Binding, ...]
    retry_seconds: tuple[float, ...] = RETRY_SECONDS
    rest_seconds: float = 1.0

    def retry_queue(self, attempts: int) -> str | None:
        """Where a message waits that has failed so often. None: it has had its last try."""
        if attempts > len(self.retry_seconds):
            return None
        return self.retry_queues()[attempts - 1].name

    def retry_queues(self) -> tuple[Queue, ...]:
        stem = self.name.removesuffix(".queue")
        return tuple(
            Queue(f"{stem}-retry-{_span(seconds)}.queue", dead_letter_queue=self.name, ttl_ms=round(seconds * 1000))
            for seconds in self.retry_seconds
        )

    def queue_names(self) -> tuple[str, ...]:
        return self.name, *(queue.name for queue in self.retry_queues()), self.dead_letter_queue

    def topology(self) -> Topology:
        exchanges = dict.fromkeys(binding.exchange for binding in self.bindings)
        work = Queue(self.name, dead_letter_queue=self.dead_letter_queue, delivery_limit=DELIVERY_LIMIT)
        return Topology(
            exchanges=tuple(Exchange(name) for name in exchanges),
            queues=(Queue(self.dead_letter_queue), work, *self.retry_queues()),
            bindings=self.bindings,
            rest_seconds=self.rest_seconds,
        )


def _span(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return f"{seconds / 60:.0f}m"
    return f"{seconds:.0f}s" if seconds >= 1 and seconds % 1 == 0 else f"{seconds * 1000:.0f}ms"

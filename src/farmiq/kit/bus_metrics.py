from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class BusMetrics:
    """What a service's workers did, by queue. One for a service, whatever number of queues it reads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.done = Counter(
            "bus_messages_done", "Messages that are durable, or had nothing to store.", ["queue"], registry=registry
        )
        self.redelivered = Counter(
            "bus_messages_redelivered", "Messages that had been delivered before.", ["queue"], registry=registry
        )
        self._retried = Counter(
            "bus_messages_retried", "Messages sent to wait for another try.", ["queue", "reason"], registry=registry
        )
        self._dead_lettered = Counter(
            "bus_messages_dead_lettered", "Messages given up, and kept.", ["queue", "reason"], registry=registry
        )
        self.held = Counter(
            "bus_batches_held",
            "Times a micro-batch had to wait for a neighbour.",
            ["queue", "reason"],
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "bus_batch_seconds", "From taking a micro-batch to its acknowledgement.", ["queue"], registry=registry
        )
        self.batch_messages = Histogram(
            "bus_batch_messages", "Messages in a micro-batch.", ["queue"], buckets=_SIZES, registry=registry
        )
        self.connected = Gauge("bus_connected", "1 while messages can come.", ["queue"], registry=registry)
        self.waiting = Gauge(
            "bus_queue_messages", "Messages that wait in a queue, as seen last.", ["queue"], registry=registry
        )

    def count_retry(self, queue: str, reason: str) -> None:
        self._retried.labels(queue, reason).inc()

    def count_dead_letter(self, queue: str, reason: str) -> None:
        self._dead_lettered.labels(queue, reason).inc()

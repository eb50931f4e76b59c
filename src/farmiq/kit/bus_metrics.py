from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class BusMetrics:
    """What a service's workers did, by queue. One for a service, whatever number of queues it reads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.done = Counter(
            "farmiq_bus_messages_done",
            "Messages that are durable, or had nothing to store.",
            ["queue"],
            registry=registry,
        )
        self.redelivered = Counter(
            "farmiq_bus_messages_redelivered", "Messages that had been delivered before.", ["queue"], registry=registry
        )
        self._retried = Counter(
            "farmiq_bus_messages_retried",
            "Messages sent to wait for another try.",
            ["queue", "reason"],
            registry=registry,
        )
        self._dead_lettered = Counter(
            "farmiq_bus_messages_dead_lettered", "Messages given up, and kept.", ["queue", "reason"], registry=registry
        )
        self._dead_letters = Counter(
            "farmiq_dead_letters", "Messages or events given up, and kept for a person.", ["queue"], registry=registry
        )
        self.held = Counter(
            "farmiq_bus_batches_held",
            "Times a micro-batch had to wait for a neighbour.",
            ["queue", "reason"],
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "farmiq_bus_batch_seconds",
            "From taking a micro-batch to its acknowledgement.",
            ["queue"],
            registry=registry,
        )
        self.batch_messages = Histogram(
            "farmiq_bus_batch_messages", "Messages in a micro-batch.", ["queue"], buckets=_SIZES, registry=registry
        )
        self.connected = Gauge("farmiq_bus_connected", "1 while messages can come.", ["queue"], registry=registry)
        self.waiting = Gauge(
            "farmiq_bus_queue_messages",
            "Messages that wait in a queue, as seen last. Dead letters that were saved in the database count with their queue.",
            ["queue"],
            registry=registry,
        )

    def expect(self, queue: str) -> None:
        """Shown as nothing from the start: otherwise nobody could tell the first dead letter from none."""
        self._dead_letters.labels(queue)

    def count_retry(self, queue: str, reason: str) -> None:
        self._retried.labels(queue, reason).inc()

    def count_dead_letter(self, queue: str, reason: str) -> None:
        self._dead_lettered.labels(queue, reason).inc()
        self._dead_letters.labels(queue).inc()

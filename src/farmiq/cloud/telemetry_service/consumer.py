"""The way in: what a message from the bus holds, and how many of them are stored together."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter

from farmiq.cloud.telemetry_service import unsent
from farmiq.cloud.telemetry_service.handlers import store
from farmiq.cloud.telemetry_service.messages import Said, has_nothing_to_store, said
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_metrics import BusMetrics
from farmiq.kit.bus_worker import Refusal, Work
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Pool


class Counters(BusMetrics):
    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.samples_stored = Counter("cloud_samples_stored", "Samples stored for the first time.", registry=registry)
        self._poison = Counter(
            "cloud_messages_dead_lettered", "Messages that can never be stored.", ["reason"], registry=registry
        )

    def count_dead_letter(self, queue: str, reason: str) -> None:
        super().count_dead_letter(queue, reason)
        self._poison.labels(reason).inc()


class StoreMessages(Work[Said]):
    """The `Work` of this service."""

    def __init__(self, pool: Pool, clock: Clock, counters: Counters, plan: unsent.Plan) -> None:
        self._pool = pool
        self._clock = clock
        self._counters = counters
        self._plan = plan

    def read(self, delivery: Delivery) -> Said | None:
        return None if has_nothing_to_store(delivery) else said(delivery)

    async def commit(self, items: Sequence[Said]) -> list[Refusal | None]:
        written = await store(self._pool, items, self._clock.now(), self._plan)
        self._counters.samples_stored.inc(written.samples_stored)
        return written.refusals

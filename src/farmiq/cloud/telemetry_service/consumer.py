"""The way in: what a message from the bus holds, and how many of them are stored together."""

from collections.abc import Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter

from farmiq.cloud.telemetry_service import unsent
from farmiq.cloud.telemetry_service.handlers import Written, store
from farmiq.cloud.telemetry_service.messages import Said, has_nothing_to_store, said
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_metrics import BusMetrics
from farmiq.kit.bus_worker import Refusal, Work
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Pool
from farmiq.timeseries.delay import delay_histogram


class Counters(BusMetrics):
    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.samples_stored = Counter(
            "farmiq_cloud_samples_stored", "Samples stored for the first time.", registry=registry
        )
        self.aggregates_told = Counter(
            "farmiq_cloud_aggregates_told", "Aggregates that the bus was told of.", registry=registry
        )
        self._delay = delay_histogram("farmiq_end_to_end_delay_seconds", "sensor to the cloud's database", registry)

    def stored(self, written: Written, committed_at: datetime) -> None:
        self.samples_stored.inc(written.samples_stored)
        for lane, newest_at in written.newest:
            self._delay.labels(lane).observe(max(0.0, (committed_at - newest_at).total_seconds()))


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
        self._counters.stored(written, self._clock.now())
        return written.refusals

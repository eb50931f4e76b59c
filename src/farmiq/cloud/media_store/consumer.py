"""The way in from the bus: what a message holds, and how many of them become durable together."""

from collections.abc import Sequence

from farmiq.cloud.media_store.announcements import Announcement, announced
from farmiq.cloud.media_store.counters import Counters
from farmiq.cloud.media_store.handlers import announce
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_worker import Refusal, Work
from farmiq.kit.postgres import Pool


class KeepAnnouncements(Work[Announcement]):
    """The `Work` of this service."""

    def __init__(self, pool: Pool, counters: Counters) -> None:
        self._pool = pool
        self._counters = counters

    def read(self, delivery: Delivery) -> Announcement:
        return announced(delivery.body)

    async def commit(self, items: Sequence[Announcement]) -> list[Refusal | None]:
        self._counters.contradicted.inc(await announce(self._pool, items))
        return [None] * len(items)

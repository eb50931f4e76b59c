"""The way in: which facts a message from the bus holds, and how many of them are kept together."""

from collections.abc import Sequence

from farmiq.cloud.analytics_service.days import Calendar
from farmiq.cloud.analytics_service.facts import Fact, fact_of
from farmiq.cloud.analytics_service.handlers import keep
from farmiq.kit.amqp import Delivery
from farmiq.kit.bus_worker import Refusal
from farmiq.kit.clock import Clock
from farmiq.kit.postgres import Pool


class KeepFacts:
    """The `Work` of this service."""

    def __init__(self, pool: Pool, clock: Clock, calendar: Calendar, hours_retention_days: int) -> None:
        self._pool = pool
        self._clock = clock
        self._calendar = calendar
        self._hours_retention_days = hours_retention_days

    def read(self, delivery: Delivery) -> Fact | None:
        return fact_of(delivery.routing_key, delivery.headers, delivery.body, self._clock.now())

    async def commit(self, facts: Sequence[Fact]) -> list[Refusal | None]:
        await keep(self._pool, facts, self._calendar, self._hours_retention_days, self._clock.now())
        return [None] * len(facts)

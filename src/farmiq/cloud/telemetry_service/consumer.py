"""The way in: take a micro-batch, store it, only then acknowledge it."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter

from farmiq.cloud.telemetry_service.handlers import Outcome, store
from farmiq.cloud.telemetry_service.settings import TelemetryServiceSettings
from farmiq.kit.amqp import Consumer, Delivery
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.logging import get_logger
from farmiq.kit.micro_batch import until_stored
from farmiq.kit.postgres import Pool

log = get_logger(__name__)


class Counters:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.stored = Counter("cloud_samples_stored", "Samples stored for the first time.", registry=registry)
        self.dead_lettered = Counter(
            "cloud_messages_dead_lettered", "Messages that can never be stored.", ["reason"], registry=registry
        )


async def consume(life: Lifetime, settings: TelemetryServiceSettings, bus: Consumer, pool: Pool) -> None:
    """Until cancelled. Cut anywhere, it loses nothing: what was not acknowledged comes again and changes nothing."""
    counters = Counters(life.registry)

    async def store_now(batch: list[Delivery]) -> list[Outcome]:
        return await store(pool, batch, life.clock.now())

    while True:
        deliveries = await bus.next_batch(settings.consume_batch_messages, settings.consume_batch_wait_ms / 1000)
        if not deliveries:
            return
        for outcome in await until_stored(partial(store_now, deliveries)):
            await _settle(bus, outcome, counters)


async def _settle(bus: Consumer, outcome: Outcome, counters: Counters) -> None:
    await bus.acknowledge(outcome.done)
    await bus.dead_letter([poison.delivery for poison in outcome.poison])
    counters.stored.inc(outcome.samples_stored)
    for poison in outcome.poison:
        counters.dead_lettered.labels(poison.code).inc()
        log.error(
            "message_dead_lettered",
            reason=poison.code,
            detail=poison.detail,
            event_id=poison.delivery.message_id,
            routing_key=poison.delivery.routing_key,
        )

"""The way in: take a micro-batch, store it, only then acknowledge it."""

from functools import partial

from farmiq.edge.ingress_gateway.counters import Counters
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.edge.ingress_gateway.publisher import AckPublisher
from farmiq.edge.ingress_gateway.quotas import Quotas
from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.micro_batch import until_stored
from farmiq.kit.mqtt import BrokerAway, Message, MqttClient
from farmiq.kit.postgres import Pool
from farmiq.outbox import Announcer


async def require_broker(mqtt: MqttClient) -> None:
    """Readiness: every subscription is in force."""
    if not mqtt.is_connected:
        raise BrokerAway("The MQTT broker is not connected, or has not confirmed the subscriptions yet")


async def consume(
    life: Lifetime,
    settings: GatewaySettings,
    mqtt: MqttClient,
    pool: Pool,
    acks: AckPublisher,
    announcer: Announcer,
    counters: Counters,
) -> None:
    """Until cancelled. Cut anywhere, it loses nothing: what was not acknowledged comes again and is recognised."""

    sync = settings.sync_plan
    quotas = Quotas(settings.device_limit, settings.tenant_limit, settings.ingress_shut_out_seconds)

    async def store_now(batch: list[Message]) -> list[Outcome]:
        return await ingest(pool, batch, life.clock.now(), sync)

    while True:
        messages = await mqtt.next_batch(settings.ingress_batch_messages, settings.ingress_batch_wait_ms / 1000)
        if not messages:
            return
        admitted, throttled = quotas.admit(messages, life.clock.monotonic())
        outcomes = await until_stored(partial(store_now, admitted)) if admitted else []
        # What was over a limit is taken from the broker too, and not acknowledged to its device: it is still there.
        mqtt.acknowledge(messages)
        acks.note(outcomes)
        acks.note_throttled(throttled)
        announcer.announce()
        counters.committed(len(admitted), outcomes, life.clock.now())
        counters.throttled(throttled)

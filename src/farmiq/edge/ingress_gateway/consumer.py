"""The way in: take a micro-batch, a message of each sender in turn, store it, only then acknowledge it."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from farmiq.edge.ingress_gateway import canary
from farmiq.edge.ingress_gateway.counters import Counters
from farmiq.edge.ingress_gateway.handlers import Outcome, ingest
from farmiq.edge.ingress_gateway.publisher import AckPublisher
from farmiq.edge.ingress_gateway.quotas import Quotas, Sender, Throttled, sender_of
from farmiq.edge.ingress_gateway.settings import GatewaySettings
from farmiq.kit.inbox import Inbox, Turns
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.micro_batch import until_stored
from farmiq.kit.mqtt import BrokerAway, Message, MqttClient
from farmiq.kit.postgres import Pool
from farmiq.outbox import Announcer

TRANSACTION_SECONDS = 0.15


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
    consumer = _Consumer(life, settings, mqtt, pool, acks, announcer, counters)
    async with asyncio.TaskGroup() as group:
        group.create_task(consumer.sort())
        group.create_task(consumer.store())


def next_limit(limit: int, taken: int, seconds: float, most: int) -> int:
    """So many messages at most in the next transaction. Who comes meanwhile waits for its end, so a long one is followed by a
    shorter one, and a full one that was short by a longer one."""
    if seconds > TRANSACTION_SECONDS:
        return max(most // 10, limit // 2, 1)
    return min(most, limit + most // 10 + 1) if taken >= limit else limit


class _Consumer:
    def __init__(
        self,
        life: Lifetime,
        settings: GatewaySettings,
        mqtt: MqttClient,
        pool: Pool,
        acks: AckPublisher,
        announcer: Announcer,
        counters: Counters,
    ) -> None:
        self._clock = life.clock
        self._mqtt = mqtt
        self._pool = pool
        self._acks = acks
        self._announcer = announcer
        self._counters = counters
        self._batch = settings.ingress_batch_messages
        self._wait_seconds = settings.ingress_batch_wait_ms / 1000
        self._sync = settings.sync_plan
        self._streams_max = settings.streams_max
        self._disk = settings.disk()
        self._quotas = Quotas(settings.device_limit, settings.tenant_limit, settings.ingress_shut_out_seconds)
        self._turns: Inbox[Message] = Inbox(Turns(lambda message: sender_of(message.topic)))
        counters.watch_disk(lambda: self._disk.state(self._clock.monotonic()))

    async def sort(self) -> None:
        """What is over a limit makes room for others at once, also while a transaction is under way."""
        connection = 0
        while messages := await self._mqtt.next_batch(self._batch, 0.0):
            if messages[0].connection != connection:
                connection = messages[0].connection
                if messages[0].is_redelivered:  # and so is everything else that was not acknowledged
                    self._turns.clear()
            # An empty one says nothing: it is how a message that the broker kept is removed there.
            ours, sent = canary.split([message for message in messages if message.payload])
            admitted, throttled = self._quotas.admit(sent, self._clock.monotonic())
            waiting = [*ours, *admitted]
            if len(waiting) < len(messages):
                # What is over a limit is taken from the broker, and not acknowledged to its device: there it still is.
                kept = set(map(id, waiting))
                self._mqtt.acknowledge([message for message in messages if id(message) not in kept])
                self._put_off(throttled)
            for message in waiting:
                self._turns.put(message)
        self._turns.close()

    async def store(self) -> None:
        limit = self._batch
        while messages := await self._turns.take(limit, self._wait_seconds):
            is_shut, begun_at = self._is_shut(), self._clock.monotonic()
            ours, sent = canary.split(messages)
            outcomes = await until_stored(partial(self._store_now, sent, is_shut)) if sent else []
            receipt = await until_stored(partial(canary.receive, self._pool, ours, self._clock.now())) if ours else None
            limit = next_limit(limit, len(messages), self._clock.monotonic() - begun_at, self._batch)
            self._mqtt.acknowledge(messages)
            self._acks.note(outcomes)
            if receipt is not None:
                self._acks.note_receipt(receipt)
            self._put_off([one for outcome in outcomes for one in outcome.put_off])
            self._announcer.announce()
            self._counters.committed(len(sent), outcomes, self._clock.now())

    async def _store_now(self, batch: list[Message], is_shut: Callable[[Sender], bool] | None) -> list[Outcome]:
        return await ingest(self._pool, batch, self._clock.now(), self._sync, self._streams_max, is_shut)

    def _put_off(self, some: Sequence[Throttled]) -> None:
        self._acks.note_throttled(some)
        self._counters.throttled(some, self._clock.now())

    def _is_shut(self) -> Callable[[Sender], bool] | None:
        now = self._clock.monotonic()
        match self._disk.state(now):
            case "free":
                return None
            case "low":
                return self._quotas.heaviest(now).__contains__
            case "full":
                return lambda _sender: True

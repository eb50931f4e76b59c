"""RabbitMQ: one durable queue with confirms, redelivery and dead letters, as `kit.amqp` shows it.

A quorum queue keeps what it has confirmed. What it took and could not confirm in time is there as well: its publisher does not
know. What a consumer has not acknowledged when its channel ends is delivered again.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from farmiq.kit.amqp import BusAway, BusRefused, Delivery, Outgoing
from farmiq.kit.errors import Transient
from farmiq.kit.inbox import Inbox
from simulation.chance import Chance, Trace
from simulation.process import PROCESS, Process
from simulation.virtual_loop import VirtualLoop


class Queued(NamedTuple):
    message: Outgoing
    is_redelivered: bool = False


class Bus:
    def __init__(self, loop: VirtualLoop, chance: Chance, trace: Trace) -> None:
        self.loop = loop
        self.chance = chance
        self.trouble = 0.0
        self.is_up = True
        self.work: deque[Queued] = deque()
        self.dead: list[Outgoing] = []
        self._consumers: list[SimulatedConsumer] = []
        self._trace = trace

    @property
    def is_empty(self) -> bool:
        return not self.work and not any(consumer.holds_some for consumer in self._consumers)

    def crash(self) -> None:
        self.is_up = False
        for consumer in list(self._consumers):
            consumer.break_off()

    def start(self) -> None:
        self.is_up = True
        self.spread()

    def lose_all(self) -> None:
        """Its disk is gone."""
        for consumer in list(self._consumers):
            consumer.break_off()
        self.work.clear()

    def take(self, message: Outgoing) -> None:
        if message.exchange == "" and message.routing_key.endswith(".dlq.queue"):
            self.dead.append(message)
        else:
            self.work.append(Queued(message))
            if self.chance.happens(self.trouble):
                self.work.append(Queued(message))
        self.spread()

    def give_back(self, messages: Sequence[Outgoing]) -> None:
        self.work.extendleft(Queued(message, is_redelivered=True) for message in reversed(messages))
        self.spread()

    def joined(self, consumer: "SimulatedConsumer") -> None:
        self._consumers.append(consumer)
        self.spread()

    def left(self, consumer: "SimulatedConsumer") -> None:
        if consumer in self._consumers:
            self._consumers.remove(consumer)

    def spread(self) -> None:
        while self.is_up and self.work:
            free = [consumer for consumer in self._consumers if consumer.has_room]
            if not free:
                return
            self.chance.choice(free).receive(self.work.popleft())


class SimulatedPublisher:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @property
    def is_connected(self) -> bool:
        return self._bus.is_up

    async def start(self) -> None:
        """It is connected whenever the bus is up."""

    async def stop(self) -> None:
        """Nothing to close."""

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Transient | None]:
        return [await self._publish(message) for message in messages]

    async def depths(self, queues: Sequence[str]) -> dict[str, int | None]:
        if not self._bus.is_up:
            raise BusAway("not connected to RabbitMQ")
        return dict.fromkeys(queues, 0)

    async def bind_again(self) -> None:
        """Nobody deletes bindings here."""

    async def _publish(self, message: Outgoing) -> Transient | None:
        bus = self._bus
        await bus.loop.step()
        await bus.loop.pause(bus.chance.seconds(0.0003, 0.003))
        if not bus.is_up:
            return BusAway("not connected to RabbitMQ")
        if bus.chance.happens(bus.trouble):
            return BusRefused("the queue has no leader")
        bus.take(message)
        await bus.loop.step()
        await bus.loop.pause(bus.chance.seconds(0.0003, 0.003))
        return BusAway("RabbitMQ did not confirm in time") if bus.chance.happens(bus.trouble) else None


class SimulatedConsumer:
    def __init__(self, bus: Bus, prefetch: int) -> None:
        self._bus = bus
        self._prefetch = prefetch
        self._inbox: Inbox[Delivery] = Inbox()
        self._held: dict[int, Outgoing] = {}
        self._tag = 0
        self._number = 0
        self._process: Process | None = None
        self.is_connected = False

    @property
    def has_room(self) -> bool:
        return self.is_connected and len(self._held) < self._prefetch

    @property
    def holds_some(self) -> bool:
        return bool(self._held)

    async def start(self) -> None:
        self._process = PROCESS.get()
        assert self._process is not None
        self._process.at_end.append(self.break_off)
        self._reconnect()

    async def stop(self) -> None:
        self._inbox.close()
        self.break_off()

    def drain(self) -> None:
        self._inbox.close()

    def receive(self, queued: Queued) -> None:
        assert self._process is not None
        self._tag += 1
        self._held[self._tag] = queued.message
        message = queued.message
        delivery = Delivery(
            message.body, message.exchange, message.routing_key, message.message_id, dict(message.headers),
            queued.is_redelivered, self._tag, self._number,
        )  # fmt: skip
        seconds = self._bus.chance.seconds(0.0003, 0.003)
        self._bus.loop.call_later(seconds, self._put, delivery, context=self._process.context())

    async def next_batch(self, messages_max: int, seconds_max: float) -> list[Delivery]:
        return await self._inbox.take(messages_max, seconds_max)

    def holds(self, delivery: Delivery) -> bool:
        return self.is_connected and delivery.connection == self._number

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in await self._sent(deliveries):
            self._held.pop(delivery.tag, None)
        self._bus.spread()
        await self._bus.loop.step()

    async def requeue(self, deliveries: Sequence[Delivery]) -> None:
        self._bus.give_back([self._held.pop(delivery.tag) for delivery in await self._sent(deliveries)])

    async def dead_letter(self, deliveries: Sequence[Delivery]) -> None:
        self._bus.dead += [self._held.pop(delivery.tag) for delivery in await self._sent(deliveries)]

    def break_off(self) -> None:
        """The channel ends: what was not acknowledged goes back, and a new one is opened if somebody is there to do so."""
        if not self.is_connected:
            return
        self.is_connected = False
        self._bus.left(self)
        held, self._held = list(self._held.values()), {}
        self._bus.give_back(held)
        if self._process is not None and self._process.is_alive:
            seconds = self._bus.chance.seconds(0.1, 2.0)
            self._bus.loop.call_later(seconds, self._reconnect, context=self._process.context())

    def _reconnect(self) -> None:
        if not self._bus.is_up:
            self._bus.loop.call_later(0.5, self._reconnect)
            return
        self._number += 1
        self._inbox.clear()
        self.is_connected = True
        self._bus.joined(self)

    def _put(self, delivery: Delivery) -> None:
        if delivery.connection == self._number and self.is_connected:
            self._inbox.put(delivery)

    async def _sent(self, deliveries: Sequence[Delivery]) -> list[Any]:
        """Those that the broker hears of, after a moment in which the channel may have ended."""
        await self._bus.loop.step()
        await self._bus.loop.pause(self._bus.chance.seconds(0.0003, 0.003))
        return [one for one in deliveries if self.holds(one) and one.tag in self._held]

"""RabbitMQ: a publisher that knows what the broker has taken, and a consumer that acknowledges when it is told to.

What is promised:

- `Publisher.publish` returns only after the broker has confirmed a message that it could route to a queue. Everything else
  raises something `Transient`: the message may be published again. After a time-out it may be on the bus twice, so
  consumers are idempotent.
- `Consumer` acknowledges nothing by itself. What was not acknowledged when its connection ends is delivered again.
- Both connect in the background, for ever, and declare their topology on every connection: a broker that came back empty
  is made whole again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.exceptions import DeliveryError, PublishError
from pamqp.commands import Basic

from farmiq.kit.amqp_channel import BusAway, LastingChannel, is_away, say
from farmiq.kit.amqp_topology import Topology, declare
from farmiq.kit.errors import Transient
from farmiq.kit.inbox import Inbox

__all__ = ["BusAway", "BusRefused", "Consumer", "Delivery", "Outgoing", "Publisher", "Unroutable"]


class BusRefused(Transient):
    """RabbitMQ took the message and could not keep it: a queue is full, or has no leader at the moment."""

    code = "bus_refused"


class Unroutable(Transient):
    """No queue is bound for this routing key. The message came back; it goes through once its consumer has declared its queue."""

    code = "unroutable"


class Outgoing(msgspec.Struct, frozen=True):
    exchange: str
    routing_key: str
    body: bytes
    message_id: str
    headers: dict[str, Any] = {}


class Delivery(msgspec.Struct, frozen=True):
    """`connection` is the number of the connection that it came in on: `tag` means nothing on any other."""

    body: bytes
    exchange: str
    routing_key: str
    message_id: str | None
    headers: dict[str, Any]
    is_redelivered: bool
    tag: int
    connection: int


class Publisher:
    """Publishes with confirms and `mandatory`. Its methods belong to the event loop that called `start`."""

    def __init__(
        self,
        url: str,
        *,
        name: str,
        topology: Topology | None = None,
        inflight_max: int = 500,
        confirm_seconds_max: float = 10.0,
    ) -> None:
        self._channel = LastingChannel(url, name=name, prepare=self._prepare)
        self._topology = topology or Topology()
        self._name = name
        self._window = asyncio.Semaphore(inflight_max)
        self._confirm_seconds_max = confirm_seconds_max
        self._under_way: dict[str, asyncio.Event] = {}

    async def start(self) -> None:
        """Begin to connect, and go on until `stop`. A broker that is away is no error here."""
        self._channel.start()

    async def stop(self) -> None:
        await self._channel.stop()

    @property
    def is_connected(self) -> bool:
        return self._channel.is_ready

    async def wait_connected(self) -> None:
        """Raises what can't heal by itself, for instance `IncompatibleTopology`."""
        await self._channel.wait_ready()

    async def publish(
        self, exchange: str, routing_key: str, body: bytes, *, message_id: str, headers: dict[str, Any] | None = None
    ) -> None:
        """Return when a queue has the message. Raises BusAway, BusRefused or Unroutable otherwise."""
        message = Outgoing(exchange, routing_key, body, message_id, headers or {})
        async with self._alone(message_id):
            try:
                async with asyncio.timeout(self._confirm_seconds_max), self._window:
                    await self._send(message)
            except PublishError as error:
                raise Unroutable(f"No queue is bound to {exchange} for {routing_key}") from error
            except DeliveryError as error:
                raise BusRefused(f"RabbitMQ could not keep a message for {exchange} {routing_key}") from error
            except (Exception, asyncio.CancelledError) as error:
                if not is_away(error):
                    raise
                raise BusAway(f"RabbitMQ did not confirm: {say(error)}") from error

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Transient | None]:
        """Publish without waiting for each confirm in turn. One answer a message, in order; None: it is on the bus."""
        publishing = [
            self.publish(one.exchange, one.routing_key, one.body, message_id=one.message_id, headers=one.headers)
            for one in messages
        ]
        answers: list[Transient | None] = []
        for answer in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(answer, BaseException) and not isinstance(answer, Transient):
                raise answer
            answers.append(answer)
        return answers

    async def _send(self, message: Outgoing) -> None:
        channel = self._channel.require()
        await channel.connection.ready()  # waits while the broker blocks publishers
        properties = Basic.Properties(
            content_type="application/json",
            delivery_mode=2,
            message_id=message.message_id,
            headers=message.headers,
            app_id=self._name,
        )
        await channel.basic_publish(
            message.body,
            exchange=message.exchange,
            routing_key=message.routing_key,
            properties=properties,
            mandatory=True,
        )

    @contextlib.asynccontextmanager
    async def _alone(self, message_id: str) -> AsyncIterator[None]:
        """aiormq finds out by id whose message came back: the same id under way twice would confirm a lost one."""
        while (earlier := self._under_way.get(message_id)) is not None:
            await earlier.wait()
        self._under_way[message_id] = done = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[message_id]
            done.set()

    async def _prepare(self, channel: AbstractChannel) -> None:
        await declare(channel, self._topology)


class Consumer:
    """Reads one queue in micro-batches. Its methods belong to the event loop that called `start`.

    At most `prefetch` messages are here and not acknowledged: that bounds memory, and the size of a batch.
    """

    def __init__(self, url: str, queue: str, *, name: str, prefetch: int, topology: Topology | None = None) -> None:
        self._inbox: Inbox[Delivery] = Inbox()
        self._channel = LastingChannel(url, name=name, prepare=self._prepare, fail=self._inbox.close)
        self._queue = queue
        self._prefetch = prefetch
        self._topology = topology or Topology()

    async def start(self) -> None:
        """Begin to connect, and go on until `stop`. A broker that is away is no error here."""
        self._channel.start()

    async def stop(self) -> None:
        """What was not acknowledged goes back to the queue."""
        self._inbox.close()
        await self._channel.stop()

    @property
    def is_connected(self) -> bool:
        return self._channel.is_ready

    async def wait_connected(self) -> None:
        """Raises what can't heal by itself, for instance `IncompatibleTopology`."""
        await self._channel.wait_ready()

    async def next_batch(self, messages_max: int, seconds_max: float) -> list[Delivery]:
        """Wait for a message, then up to `seconds_max` for more. Empty only after `stop`. Cancelling this loses nothing."""
        return await self._inbox.take(messages_max, seconds_max)

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Tell the broker that these are safe. Those of an earlier connection are passed over: they come again."""
        await self._answer(deliveries, lambda channel, tag: channel.basic_ack(tag, wait=False))

    async def requeue(self, deliveries: Sequence[Delivery]) -> None:
        """Give back what can't be done now. Each return counts towards the queue's delivery limit."""
        await self._answer(deliveries, lambda channel, tag: channel.basic_nack(tag, requeue=True, wait=False))

    async def dead_letter(self, deliveries: Sequence[Delivery]) -> None:
        """Send what will never be good to the queue's dead-letter queue."""
        await self._answer(deliveries, lambda channel, tag: channel.basic_nack(tag, requeue=False, wait=False))

    async def _answer(
        self, deliveries: Sequence[Delivery], send: Callable[[AbstractChannel, int], Awaitable[None]]
    ) -> None:
        if not self._channel.is_ready:
            return
        channel, number = self._channel.require(), self._channel.number
        try:
            for delivery in deliveries:
                if delivery.connection == number:
                    await send(channel, delivery.tag)
        except (Exception, asyncio.CancelledError) as error:
            if not is_away(error):
                raise  # else the broker has them back already, and delivers them again

    async def _prepare(self, channel: AbstractChannel) -> None:
        self._inbox.clear()  # came on a channel that is gone, and comes again
        await declare(channel, self._topology)
        # The broker does so when the queue is deleted or its leader goes: a new channel declares it again.
        channel.on_consumer_cancel_callbacks.add(lambda _frame: self._channel.give_up())
        await channel.basic_qos(prefetch_count=self._prefetch)
        await channel.basic_consume(self._queue, partial(self._receive, self._channel.number))

    async def _receive(self, connection: int, message: DeliveredMessage) -> None:
        properties = message.header.properties
        self._inbox.put(
            Delivery(
                message.body,
                message.exchange or "",
                message.routing_key or "",
                properties.message_id,
                properties.headers or {},
                bool(message.redelivered),
                message.delivery_tag or 0,
                connection,
            )
        )

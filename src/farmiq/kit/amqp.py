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
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import msgspec
from aiormq.abc import AbstractChannel, DeliveredMessage, FrameType
from aiormq.channel import Channel
from aiormq.exceptions import AMQPConnectionError, ChannelNotFoundEntity, DeliveryError, PublishError
from pamqp.commands import Basic

from farmiq.kit.amqp_channel import BusAway, LastingChannel, is_away, say
from farmiq.kit.amqp_outgoing import GROUP_MESSAGES_MAX, Confirm, Outgoing, answer, groups, write
from farmiq.kit.amqp_topology import Topology, declare, depth, routes
from farmiq.kit.errors import Transient
from farmiq.kit.inbox import Inbox

__all__ = [
    "CARRIED",
    "BusAway",
    "BusRefused",
    "Consumer",
    "Delivery",
    "Outgoing",
    "Publisher",
    "TopologyGone",
    "Unroutable",
    "delivery_of",
]

CARRIED: Final = (
    "app_id",
    "content_encoding",
    "content_type",
    "correlation_id",
    "message_type",
    "priority",
    "reply_to",
    "timestamp",
)
"""What goes with a message from queue to queue. Not its expiration: it would be gone from where it is to wait for a person.
Not its user: RabbitMQ refuses one that is not our own."""


class BusRefused(Transient):
    """RabbitMQ took the message and could not keep it: a queue is full, or has no leader at the moment."""

    code = "bus_refused"


class Unroutable(Transient):
    """No queue is bound for this routing key. The message came back; it goes through once its consumer has declared its queue."""

    code = "unroutable"


class TopologyGone(Transient):
    """Somebody has deleted a queue or a binding that was declared. It is made again, and the message goes through then."""

    code = "topology_gone"


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
    properties: dict[str, Any] = {}


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
        self._turn = asyncio.Lock()
        self._group_max = min(GROUP_MESSAGES_MAX, inflight_max)
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
        """Return when a queue has the message. Raises BusAway, BusRefused, TopologyGone or Unroutable otherwise."""
        [why] = await self.publish_many([Outgoing(exchange, routing_key, body, message_id, headers or {})])
        if why is not None:
            raise why

    async def publish_many(self, messages: Sequence[Outgoing]) -> list[Transient | None]:
        """Publish without waiting for each confirm in turn. One answer a message, in order; None: it is on the bus."""
        answers: list[Transient | None] = []
        publishing = [self._publish(group) for group in groups(messages, self._group_max)]
        for part in await asyncio.gather(*publishing, return_exceptions=True):
            if isinstance(part, BaseException):
                raise part
            answers += part
        return answers

    async def depths(self, queues: Sequence[str]) -> dict[str, int | None]:
        """How many messages wait in these queues; None for one that is not there. Raises `BusAway`."""
        try:
            async with asyncio.timeout(self._confirm_seconds_max):
                connection = self._channel.require().connection
                return {queue: await depth(connection, queue) for queue in queues}
        except (Exception, asyncio.CancelledError) as error:
            if not is_away(error):
                raise
            raise BusAway(f"RabbitMQ did not answer: {say(error)}") from error

    async def bind_again(self) -> None:
        """Make bindings that somebody has deleted. Raises `BusAway`.

        RabbitMQ gives back only what no queue takes: who has lost its binding beside another that still has one hears nothing.
        """
        try:
            async with asyncio.timeout(self._confirm_seconds_max):
                channel = await self._channel.require().connection.channel()
                for binding in self._topology.bindings:
                    await channel.queue_bind(binding.queue, binding.exchange, binding.routing_key)
                await channel.close()
        except ChannelNotFoundEntity:
            self._channel.give_up()  # a queue is gone too, or an exchange: a new channel declares everything
        except (Exception, asyncio.CancelledError) as error:
            if not is_away(error):
                raise
            raise BusAway(f"RabbitMQ did not answer: {say(error)}") from error

    async def _publish(self, group: Sequence[Outgoing]) -> list[Transient | None]:
        confirms: list[Confirm] = []
        failure: BaseException = AMQPConnectionError()
        async with self._alone([message.message_id for message in group]):
            try:
                async with asyncio.timeout(self._confirm_seconds_max), self._room(len(group)):
                    await self._send(group, confirms)
            except (Exception, asyncio.CancelledError) as error:
                if not isinstance(error, BusAway) and not is_away(error):
                    raise
                failure = error
        words = [_word(confirm, failure) for confirm in confirms] or [failure] * len(group)
        return [self._said(message, word) for message, word in zip(group, words, strict=True)]

    def _said(self, message: Outgoing, word: BaseException | None) -> Transient | None:
        if word is None or isinstance(word, BusAway):
            return word
        if isinstance(word, PublishError):
            return self._returned(message)
        if isinstance(word, DeliveryError):
            return BusRefused(f"RabbitMQ could not keep a message for {message.exchange} {message.routing_key}")
        if is_away(word):
            return BusAway(f"RabbitMQ did not confirm: {say(word)}")
        raise word

    def _returned(self, message: Outgoing) -> Transient:
        where = message.exchange or "the default exchange"
        if not routes(self._topology, message.exchange, message.routing_key):
            return Unroutable(f"No queue is bound to {where} for {message.routing_key}")
        self._channel.give_up()  # a new one declares the topology again
        return TopologyGone(f"What was bound to {where} for {message.routing_key} is gone, and is made again")

    async def _send(self, group: Sequence[Outgoing], confirms: list[Confirm]) -> None:
        """Until RabbitMQ has said something about each. Cut short, `confirms` has what it said so far."""
        channel = cast("Channel", self._channel.require())
        await channel.connection.ready()  # waits while the broker blocks publishers
        confirms += await write(channel, group, self._name)
        await asyncio.wait(confirms)

    @contextlib.asynccontextmanager
    async def _room(self, count: int) -> AsyncIterator[None]:
        """In the window. One at a time gathers it: two that had half of it each would wait for ever."""
        taken = 0
        try:
            async with self._turn:
                while taken < count:
                    await self._window.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._window.release()

    @contextlib.asynccontextmanager
    async def _alone(self, message_ids: Sequence[str]) -> AsyncIterator[None]:
        """aiormq finds out by id whose message came back: the same id under way twice would confirm a lost one."""
        while earlier := next((self._under_way[one] for one in message_ids if one in self._under_way), None):
            await earlier.wait()
        done = asyncio.Event()
        self._under_way.update(dict.fromkeys(message_ids, done))
        try:
            yield
        finally:
            for message_id in message_ids:
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
        self._held: set[int] = set()

    async def start(self) -> None:
        """Begin to connect, and go on until `stop`. A broker that is away is no error here."""
        self._channel.start()

    def drain(self) -> None:
        """Give no more batches. What has been given can still be acknowledged."""
        self._inbox.close()

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

    def holds(self, delivery: Delivery) -> bool:
        """Whether it can still be answered. Otherwise it comes again, here or to another replica."""
        return self._channel.is_ready and delivery.connection == self._channel.number

    async def acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        """Tell the broker that these are safe. Those of an earlier connection are passed over: they come again."""
        await self._answer(deliveries, self._acks)

    async def requeue(self, deliveries: Sequence[Delivery]) -> None:
        """Give back what can't be done now. Each return counts towards the queue's delivery limit."""
        await self._answer(deliveries, lambda tags: [Basic.Nack(delivery_tag=tag, requeue=True) for tag in tags])

    async def dead_letter(self, deliveries: Sequence[Delivery]) -> None:
        """Send what will never be good to the queue's dead-letter queue."""
        await self._answer(deliveries, lambda tags: [Basic.Nack(delivery_tag=tag, requeue=False) for tag in tags])

    async def _answer(self, deliveries: Sequence[Delivery], frames_of: Callable[[list[int]], list[FrameType]]) -> None:
        if not self._channel.is_ready:
            return
        channel, number = cast("Channel", self._channel.require()), self._channel.number
        tags = [delivery.tag for delivery in deliveries if delivery.connection == number]
        if not tags:
            return
        frames = frames_of(tags)
        self._held.difference_update(tags)
        try:
            await answer(channel, frames)
        except (Exception, asyncio.CancelledError) as error:
            if not is_away(error):
                raise  # else the broker has them back already, and delivers them again

    def _acks(self, tags: list[int]) -> list[FrameType]:
        """One for all, when nothing that came before the last of them is still in our hands."""
        last = max(tags)
        if {tag for tag in self._held if tag <= last} == set(tags):
            return [Basic.Ack(delivery_tag=last, multiple=True)]
        return [Basic.Ack(delivery_tag=tag) for tag in tags]

    async def _prepare(self, channel: AbstractChannel) -> None:
        self._inbox.clear()  # came on a channel that is gone, and comes again
        self._held.clear()
        await declare(channel, self._topology)
        # The broker does so when the queue is deleted or its leader goes: a new channel declares it again.
        channel.on_consumer_cancel_callbacks.add(lambda _frame: self._channel.give_up())
        await channel.basic_qos(prefetch_count=self._prefetch)
        await channel.basic_consume(self._queue, partial(self._receive, self._channel.number))

    async def _receive(self, connection: int, message: DeliveredMessage) -> None:
        if connection == self._channel.number:
            self._held.add(message.delivery_tag or 0)
            self._inbox.put(delivery_of(message, connection))


def _word(confirm: Confirm, failure: BaseException) -> BaseException | None:
    """What RabbitMQ said about a message; `failure` when it said nothing."""
    if confirm.done() and not confirm.cancelled():
        return confirm.exception()
    confirm.cancel()
    return failure


def delivery_of(message: DeliveredMessage, connection: int) -> Delivery:
    properties = message.header.properties
    return Delivery(
        message.body,
        message.exchange or "",
        message.routing_key or "",
        properties.message_id,
        properties.headers or {},
        bool(message.redelivered),
        message.delivery_tag or 0,
        connection,
        {name: getattr(properties, name) for name in CARRIED},
    )

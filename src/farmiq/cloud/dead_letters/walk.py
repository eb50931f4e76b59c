"""One pass over a dead-letter queue: everything is looked at once, and what is not taken out stays.

RabbitMQ has no way to look without taking. So letters are taken a few at a time and held, and what was not removed goes back at
the end, in the order in which it came. RabbitMQ puts it behind what was not looked at, so only a pass over the whole queue leaves
its order as it was. If we are cut off, RabbitMQ takes everything back by itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage

from farmiq.kit.amqp import Delivery, delivery_of
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import depth
from farmiq.kit.errors import Rejected

WINDOW: Final = 30
"""How many are in our hands at a time. RabbitMQ passes 32 acknowledgements of a channel on to a quorum queue and keeps others
back until that has written them; a channel that ends just then takes them along, and what was replayed is still there."""

QUIET_SECONDS_MAX: Final = 5.0
GIVEN_BACK_SECONDS_MAX: Final = 10.0
WINDOWS_AT_ONCE: Final = 16


class NoSuchQueue(Rejected):
    """The dead-letter queue does not exist. `farmiq cloud topology apply` makes it, and so does every service that starts."""

    code = "no_such_queue"


class Walk:
    """`messages` were there at the start; those that come later are for the next walk, so a walk always ends."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel, queue: str, messages: int) -> None:
        self.messages = messages
        self.seen = 0
        self._connection = connection
        self._channel = channel
        self._queue = queue
        self._held: list[set[int]] = []

    async def windows(self, messages_max: int) -> AsyncIterator[list[Delivery]]:
        """Each of the letters once, up to so many."""
        end = min(self.messages, messages_max)
        while self.seen < end:
            window = await self._take(min(WINDOW, end - self.seen))
            if not window:
                return
            self.seen += len(window)
            self._held.append({delivery.tag for delivery in window})
            yield window

    async def remove(self, deliveries: Sequence[Delivery]) -> None:
        """For those of the present window that another place has by now."""
        for delivery in deliveries:
            await self._channel.basic_ack(delivery.tag, wait=False)
            self._held[-1].discard(delivery.tag)

    async def give_back(self) -> None:
        """And wait until RabbitMQ has them in the queue again: the next one to look finds them all."""
        # An acknowledgement has no answer, and a connection that ends may take it along. RabbitMQ does what comes on a channel
        # in turn: when it answers this, it has had them all.
        await self._channel.basic_qos(prefetch_count=1)
        held = [tags for tags in self._held if tags]
        back = self.messages - self.seen
        for number, tags in enumerate(held, 1):
            await self._channel.basic_nack(max(tags), multiple=True, requeue=True)
            back += len(tags)
            # Given too many at once, RabbitMQ would put them together by its own lights, and their order would be gone.
            if number % WINDOWS_AT_ONCE == 0 or number == len(held):
                await self._until_there(back)

    async def _until_there(self, messages: int) -> None:
        """Others may take some out meanwhile, so there is an end to waiting."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVEN_BACK_SECONDS_MAX):
                while (await depth(self._connection, self._queue) or 0) < messages:  # noqa: ASYNC110 - only the broker knows
                    await asyncio.sleep(0.02)

    async def _take(self, count: int) -> list[Delivery]:
        """A consumer for each window: RabbitMQ gives it so many and no more, as none of them is acknowledged."""
        arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        await self._channel.basic_qos(prefetch_count=count)
        tag = (await self._channel.basic_consume(self._queue, arrived.put)).consumer_tag
        window: list[Delivery] = []
        with contextlib.suppress(TimeoutError):  # somebody else has them: they are not ours to look at
            async with asyncio.timeout(QUIET_SECONDS_MAX):
                while len(window) < count:
                    window.append(delivery_of(await arrived.get(), connection=0))
        await self._channel.basic_cancel(str(tag))
        while not arrived.empty():
            window.append(delivery_of(arrived.get_nowait(), connection=0))
        return window


@contextlib.asynccontextmanager
async def walking(amqp_url: str, queue: str) -> AsyncIterator[Walk]:
    """Raises `BusAway` or `NoSuchQueue`."""
    async with connected(amqp_url, "farmiq-dead-letters") as connection:
        messages = await depth(connection, queue)
        if messages is None:
            raise NoSuchQueue(f"There is no queue {queue}")
        walk = Walk(connection, await connection.channel(), queue, messages)
        yield walk
        await walk.give_back()

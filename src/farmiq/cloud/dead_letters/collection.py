"""From the dead-letter queue into the database. Every look and every action begins with this."""

import asyncio
import contextlib
from typing import Final

from aiormq.abc import AbstractChannel, DeliveredMessage

from farmiq.cloud.dead_letters import saved
from farmiq.kit.amqp import Delivery, delivery_of
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import depth
from farmiq.kit.errors import Rejected
from farmiq.kit.postgres import Connection

WINDOW: Final = 30
"""How many letters are taken at a time. RabbitMQ passes 32 acknowledgements of a channel on to a quorum queue and keeps others
back until that has written them; a channel that ends just then takes them along, and the letters come once more."""

QUIET_SECONDS_MAX: Final = 5.0


class NoSuchQueue(Rejected):
    """The dead-letter queue does not exist. `farmiq cloud topology apply` makes it, and so does every service that starts."""

    code = "no_such_queue"


async def collect(connection: Connection, amqp_url: str, queue: str, letters_max: int) -> int:
    """Move up to so many of the letters that are in the queue now, and return how many are still there.

    In order: taken, saved and committed, acknowledged. Raises `BusAway` or `NoSuchQueue`.
    """
    async with connected(amqp_url, "farmiq-dead-letters") as bus:
        waiting = await depth(bus, queue)
        if waiting is None:
            raise NoSuchQueue(f"There is no queue {queue}")
        left = min(waiting, letters_max)
        if left:
            await saved.require_writable(connection)
        channel = await bus.channel()
        while left > 0 and (window := await _take(channel, queue, min(WINDOW, left))):
            await saved.save(connection, queue, window)
            await channel.basic_ack(max(delivery.tag for delivery in window), multiple=True)
            left -= len(window)
        # An acknowledgement has no answer, and a connection that ends may take it along. RabbitMQ does what comes on a channel in
        # turn: when it answers this, it has had them all.
        await channel.basic_qos(prefetch_count=1)
        return await depth(bus, queue) or 0


async def _take(channel: AbstractChannel, queue: str, count: int) -> list[Delivery]:
    """A consumer for each window: RabbitMQ gives it so many and no more, as none of them is acknowledged."""
    arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
    await channel.basic_qos(prefetch_count=count)
    tag = (await channel.basic_consume(queue, arrived.put)).consumer_tag
    window: list[Delivery] = []
    with contextlib.suppress(TimeoutError):  # somebody else has them
        async with asyncio.timeout(QUIET_SECONDS_MAX):
            while len(window) < count:
                window.append(delivery_of(await arrived.get(), connection=0))
    await channel.basic_cancel(str(tag))
    while not arrived.empty():
        window.append(delivery_of(arrived.get_nowait(), connection=0))
    return window

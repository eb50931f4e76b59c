"""A look into a queue of the bus."""

import aiormq
from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from farmiq.contracts.decoding import decode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.contracts.limits import BUS_MESSAGE_BYTES_MAX


async def take_all(amqp_url: str, queue: str) -> list[BusEnvelope]:
    """Every event that waits in the queue, taken out of it."""
    messages = await take_messages(amqp_url, queue)
    return [decode(BusEnvelope, message.body, max_bytes=BUS_MESSAGE_BYTES_MAX) for message in messages]


async def take_messages(amqp_url: str, queue: str) -> list[DeliveredMessage]:
    connection = await aiormq.connect(amqp_url)
    try:
        channel = await connection.channel()
        found = []
        while not isinstance((message := await channel.basic_get(queue, no_ack=True)).delivery, Basic.GetEmpty):
            found.append(message)
        return found
    finally:
        await connection.close()


async def bind(amqp_url: str, queue: str, exchange: str, routing_key: str) -> None:
    """A durable queue of the test's own."""
    connection = await aiormq.connect(amqp_url)
    try:
        channel = await connection.channel()
        await channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        await channel.queue_bind(queue, exchange, routing_key)
    finally:
        await connection.close()

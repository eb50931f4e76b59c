"""Bindings that somebody deletes while another queue still takes the messages: nobody is told, so they are looked after."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from farmiq.kit.amqp import BusAway, Publisher
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology
from support.bus_queue import take_messages
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

EXCHANGE, OURS, OTHER = "farm.exchange", "ours.queue", "other.queue"
TOPOLOGY = Topology(
    (Exchange(EXCHANGE),),
    (Queue(OURS), Queue(OTHER)),
    (Binding(EXCHANGE, OURS, "telemetry.#"), Binding(EXCHANGE, OTHER, "#")),
    rest_seconds=0.0,
)


@pytest.fixture
def url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
async def publisher(url: str) -> AsyncIterator[Publisher]:
    made = Publisher(url, name="test", topology=TOPOLOGY)
    await made.start()
    await asyncio.wait_for(made.wait_connected(), 20)
    yield made
    await made.stop()


async def bodies(url: str, queue: str) -> list[bytes]:
    return [message.body for message in await take_messages(url, queue)]


async def test_a_binding_deleted_beside_another_is_made_again(url: str, publisher: Publisher) -> None:
    async with connected(url, "test") as connection:
        await (await connection.channel()).queue_unbind(OURS, EXCHANGE, "telemetry.#")
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"unheard", message_id="1")

    await publisher.bind_again()
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"heard", message_id="2")

    assert await bodies(url, OURS) == [b"heard"]
    assert await bodies(url, OTHER) == [b"unheard", b"heard"]


async def test_a_queue_deleted_beside_another_is_made_again_with_its_binding(url: str, publisher: Publisher) -> None:
    async with connected(url, "test") as connection:
        await (await connection.channel()).queue_delete(OURS)

    await publisher.bind_again()

    async def is_heard() -> bool:
        try:
            await publisher.publish(EXCHANGE, "telemetry.ingested", b"heard", message_id="1")
            return bool((await publisher.depths([OURS]))[OURS])
        except BusAway:
            return False  # it is connecting anew

    await eventually(is_heard, 20.0, "the queue to be there again")
    assert b"heard" in await bodies(url, OURS)

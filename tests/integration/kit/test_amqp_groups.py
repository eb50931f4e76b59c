"""Many messages in one write, many acknowledgements in one: what RabbitMQ makes of them is what it would make of each alone."""

import asyncio
from collections.abc import Sequence

from farmiq.kit.amqp import Consumer, Delivery, Outgoing, Publisher, Unroutable
from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology
from support.rabbitmq import NewVirtualHost

EXCHANGE, QUEUE = "farm.exchange", "farm.ingest.queue"
TOPOLOGY = Topology((Exchange(EXCHANGE),), (Queue(QUEUE),), (Binding(EXCHANGE, QUEUE, "good.#"),), rest_seconds=0.0)
LARGER_THAN_A_FRAME = 300_000


def outgoing(numbers: Sequence[int], size_bytes: int = 0) -> list[Outgoing]:
    return [Outgoing(EXCHANGE, "good", str(one).encode().ljust(size_bytes), f"id-{one}") for one in numbers]


async def started(url: str, **options: int) -> Publisher:
    publisher = Publisher(url, name="test", topology=TOPOLOGY, **options)
    await publisher.start()
    await asyncio.wait_for(publisher.wait_connected(), 20)
    return publisher


async def taken(url: str, count: int) -> tuple[Consumer, dict[int, Delivery]]:
    consumer = Consumer(url, QUEUE, name="test", prefetch=count + 1)
    await consumer.start()
    found: dict[int, Delivery] = {}
    async with asyncio.timeout(30):
        while len(found) < count:
            found |= {int(one.body): one for one in await consumer.next_batch(count, 0.05)}
    return consumer, found


async def test_bodies_of_every_size_arrive_whole_and_in_order(new_vhost: NewVirtualHost) -> None:
    url = new_vhost()
    publisher = await started(url)
    sizes = [0, 1, 131_063, 131_064, 131_065, LARGER_THAN_A_FRAME, 0]
    messages = [message for place, size in enumerate(sizes) for message in outgoing([place], size)]

    assert await publisher.publish_many(messages) == [None] * len(sizes)

    consumer, found = await taken(url, len(sizes))
    assert [delivery.body for delivery in found.values()] == [message.body for message in messages]
    await asyncio.gather(publisher.stop(), consumer.stop())


async def test_each_of_a_group_is_answered_for_itself(new_vhost: NewVirtualHost) -> None:
    publisher = await started(new_vhost())
    messages = [Outgoing(EXCHANGE, "bad" if number % 7 == 0 else "good", b"x", f"id-{number}") for number in range(250)]

    answers = await publisher.publish_many(messages)

    assert [isinstance(answer, Unroutable) for answer in answers] == [number % 7 == 0 for number in range(250)]
    await publisher.stop()


async def test_groups_that_want_more_room_than_there_is_wait_for_each_other_and_all_go_through(
    new_vhost: NewVirtualHost,
) -> None:
    publisher = await started(new_vhost(), inflight_max=120)
    several = [outgoing(range(start, start + 300)) for start in range(0, 1500, 300)]

    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(publisher.publish_many(messages) for messages in several))

    assert answers == [[None] * 300] * 5
    await publisher.stop()


async def test_what_is_acknowledged_together_or_out_of_order_is_exactly_what_does_not_come_again(
    new_vhost: NewVirtualHost,
) -> None:
    url = new_vhost()
    publisher = await started(url)
    await publisher.publish_many(outgoing(range(10)))
    consumer, found = await taken(url, 10)
    await consumer.acknowledge([found[0], found[1], found[2]])  # all that came so far: one word for all
    await consumer.acknowledge([found[5], found[4]])  # not all that came so far
    await consumer.requeue([found[3]])
    await consumer.acknowledge([found[6], found[7]])  # now nothing older is in hand
    await consumer.stop()

    again, left = await taken(url, 3)
    assert sorted(left) == [3, 8, 9]
    await again.acknowledge([left[3], left[8], left[9]])
    await publisher.publish_many(outgoing([99]))
    await again.stop()

    last, found = await taken(url, 1)
    assert list(found) == [99]
    await asyncio.gather(publisher.stop(), last.stop())

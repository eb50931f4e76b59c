"""What is still on the bus after a campaign, asked of a real RabbitMQ."""

from pathlib import Path

import aiormq
import pytest

from farmiq.kit.amqp_channel import BusAway
from farmiq.kit.work_queue import WorkQueue
from farmiq.stack.ports import free_port
from farmiq.stack.rabbitmq import RabbitMq
from farmiq.torture.bus import depths
from support.rabbitmq import NewVirtualHost

QUEUE = WorkQueue("work.queue", "dead.queue", ())


async def test_a_message_counts_in_hand_and_while_it_waits_for_another_try(
    shared_rabbitmq: RabbitMq, new_vhost: NewVirtualHost
) -> None:
    url = new_vhost()
    virtual_host = url.rpartition("/")[2]
    connection = await aiormq.connect(url)
    channel = await connection.channel()
    for queue in QUEUE.topology().queues:
        await channel.queue_declare(queue.name, durable=True, arguments=queue.arguments())
    retry = QUEUE.retry_queues()[-1].name
    assert await depths(shared_rabbitmq, [QUEUE.name, retry], virtual_host) == {QUEUE.name: 0, retry: 0}
    for queue_name in (QUEUE.name, QUEUE.name, retry):
        await channel.basic_publish(b"x", routing_key=queue_name)
    taken = [await channel.basic_get(QUEUE.name) for _ in range(2)]
    # A client that asks is told of none: both are in somebody's hands.
    assert (await channel.queue_declare(QUEUE.name, passive=True)).message_count == 0
    assert await depths(shared_rabbitmq, [QUEUE.name, retry], virtual_host) == {QUEUE.name: 2, retry: 1}
    for message in taken:
        assert message.delivery_tag is not None
        await channel.basic_ack(message.delivery_tag, wait=True)
    await connection.close()
    assert await depths(shared_rabbitmq, [QUEUE.name, "no.queue"], virtual_host) == {QUEUE.name: 0, "no.queue": None}


async def test_a_broker_that_does_not_answer_has_no_empty_queues(tmp_path: Path) -> None:
    gone = RabbitMq(tmp_path, free_port(), free_port(), free_port(), password="x", cookie="x")
    with pytest.raises(BusAway):
        await depths(gone, [QUEUE.name])

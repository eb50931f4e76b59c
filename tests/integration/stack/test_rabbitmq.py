import asyncio

import aio_pika
import aiormq
import pytest

from farmiq.stack.rabbitmq import RabbitMq
from support.rabbitmq import NewVirtualHost
from support.server_process import ServerProcess


async def test_a_message_travels_with_the_right_password(new_vhost: NewVirtualHost) -> None:
    connection = await aio_pika.connect(new_vhost())
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("q", durable=True, arguments={"x-queue-type": "quorum"})
        await channel.default_exchange.publish(aio_pika.Message(b"x"), "q", mandatory=True)
        message = await queue.get(timeout=10)
        await message.ack()
        assert message.body == b"x"


@pytest.mark.parametrize("login", ["guest:guest", "farmiq:wrong", "farmiq:farmiq"])
async def test_nobody_gets_in_with_a_wrong_or_default_password(rabbitmq_url: str, login: str) -> None:
    scheme, _, place = rabbitmq_url.partition("://")
    with pytest.raises(aiormq.exceptions.ProbableAuthenticationError):
        await aio_pika.connect(f"{scheme}://{login}@{place.partition('@')[2]}")


async def test_virtual_hosts_of_tests_do_not_see_each_other(new_vhost: NewVirtualHost) -> None:
    one, other = await aio_pika.connect(new_vhost()), await aio_pika.connect(new_vhost())
    async with one, other:
        await (await one.channel()).declare_queue("mine")
        with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity):
            await (await other.channel()).declare_queue("mine", passive=True)


async def test_a_queue_made_a_moment_before_a_kill_has_a_leader_again_after_the_next_start(
    rabbitmq_server: ServerProcess,
) -> None:
    server = rabbitmq_server.server
    assert isinstance(server, RabbitMq)
    async with await aio_pika.connect(server.url()) as connection:
        channel = await connection.channel()
        await channel.declare_queue("young", durable=True, arguments={"x-queue-type": "quorum"})
    await asyncio.to_thread(rabbitmq_server.kill)
    await asyncio.to_thread(rabbitmq_server.start)
    async with asyncio.timeout(30), await aio_pika.connect(server.url()) as connection:
        channel = await connection.channel()
        await channel.default_exchange.publish(aio_pika.Message(b"kept"), "young")
        queue = await channel.get_queue("young")
        message = await queue.get(timeout=10)
        assert message is not None
        assert message.body == b"kept"

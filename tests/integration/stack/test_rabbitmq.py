import asyncio
import secrets
import subprocess
from pathlib import Path

import aio_pika
import aiormq
import pytest

from farmiq.stack.ports import free_port
from farmiq.stack.processes import MARKER
from farmiq.stack.rabbitmq import Epmd, RabbitMq
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


def test_started_while_epmd_is_away_it_leaves_no_daemon_that_holds_its_port(run_folder: Path, tmp_path: Path) -> None:
    """Seen in a campaign: both were killed, RabbitMQ came back first, and epmd never again."""
    epmd = Epmd(free_port())
    server = RabbitMq(
        tmp_path / "rabbitmq", free_port(), free_port(), epmd.port, secrets.token_urlsafe(16), secrets.token_hex(16)
    )
    server.prepare()
    ended = subprocess.run(
        server.command(),
        env=server.environment() | {MARKER: str(run_folder)},
        cwd="/",
        capture_output=True,
        timeout=150,
        check=False,
    )
    assert ended.returncode != 0  # it can't be reached by its name: whoever keeps it starts it again
    ours = ServerProcess(epmd, run_folder, tmp_path / "epmd.log")
    ours.start()
    assert ours.is_running
    ours.stop()

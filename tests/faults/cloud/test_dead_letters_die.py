"""`farmiq dlq` is killed at every step of a letter's way: out of its queue, into the database, back to its service."""

import asyncio
import itertools
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from pamqp.commands import Basic

from farmiq.cloud.dead_letters import audit, handlers, saved
from farmiq.cloud.dead_letters.collection import WINDOW
from farmiq.cloud.topology import WORK_QUEUES
from farmiq.kit.amqp import Publisher
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.amqp_topology import depth
from farmiq.kit.postgres import Pool
from farmiq.stack.rabbitmq import RabbitMq
from support.dead_letters import (
    ALL,
    DEAD_LETTERS,
    QUEUE,
    SERVICE,
    filled,
    filled_queue,
    ids_in,
    letter,
    numbered,
    waiting_ids,
)
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

COUNT = WINDOW + 20
Death = tuple[str, str, str]
REPLAYS: dict[str, Death] = {
    "with a window taken and not saved": ("farmiq.cloud.dead_letters.collection:_take", "after", "1"),
    "with a window saved and not acknowledged": ("farmiq.cloud.dead_letters.saved:save", "after", "1"),
    "with a page confirmed and not settled": ("farmiq.kit.amqp:Publisher.publish_many", "after", "1"),
    "with a page settled and the second not begun": ("farmiq.cloud.dead_letters.saved:settle", "after", "1"),
    "before anything was touched": ("farmiq.cloud.dead_letters.audit:begin", "after", "1"),
    "at the very end": ("farmiq.cloud.dead_letters.audit:finish", "before", "1"),
}
DISCARDS: dict[str, Death] = {
    "with a window saved and not acknowledged": ("farmiq.cloud.dead_letters.saved:save", "after", "1"),
    "with a page kept and not settled": ("farmiq.cloud.dead_letters.audit:keep", "after", "1"),
    "with a page declared lost and not settled": ("farmiq.cloud.dead_letters.losses:declare", "after", "1"),
    "with a page settled and not committed": ("farmiq.cloud.dead_letters.saved:settle", "after", "1"),
}

LOOKS: tuple[Death, ...] = (
    ("farmiq.cloud.dead_letters.collection:_take", "after", "1"),
    ("farmiq.cloud.dead_letters.saved:save", "before", "1"),
    ("farmiq.cloud.dead_letters.saved:save", "after", "1"),
)


async def run_farmiq(environ: dict[str, str], *arguments: str, dies: Death | None = None) -> int:
    prefix = ["-m", "support.dying_command", *dies] if dies else ["-m", "farmiq.cli"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *prefix,
        *arguments,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2]), **environ},
        stdout=asyncio.subprocess.DEVNULL,
    )
    return await asyncio.wait_for(process.wait(), 60)


async def until_all_wait(pool: Pool, url: str, ids: set[str]) -> None:
    """In the database or, after RabbitMQ has noticed that their holder died, in the queue."""
    async with connected(url, "test") as bus:

        async def are_there() -> bool:
            return (await depth(bus, DEAD_LETTERS) or 0) + await saved.count(pool, DEAD_LETTERS) >= len(ids)

        await eventually(are_there, what="RabbitMQ to take back what was held")


@pytest.mark.parametrize("moment", REPLAYS)
async def test_killed_during_a_replay_every_letter_is_in_one_place_or_both_and_again_means_onwards(
    moment: str, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    url = new_vhost()
    environ = {"AMQP_URL": url, "CLOUD_DATABASE_URL": cloud_url}
    async with filled(url, *map(letter, range(COUNT))):
        pass

    assert await run_farmiq(environ, "dlq", "replay", "--service", SERVICE, dies=REPLAYS[moment]) == -signal.SIGKILL

    replayed = Counter(await ids_in(url, QUEUE))
    await until_all_wait(cloud_pool, url, {*numbered(range(COUNT))} - {*replayed})
    assert await run_farmiq(environ, "dlq", "replay", "--service", SERVICE) == 0
    replayed += Counter(await ids_in(url, QUEUE))
    assert set(replayed) == set(numbered(range(COUNT)))
    assert max(replayed.values()) <= 2
    assert await waiting_ids(cloud_pool, url) == []
    async with cloud_pool.acquire() as connection:
        second, first = await audit.actions(connection, 10)
    assert (first.finished_at, second.error) == (None, None)
    assert second.finished_at is not None


@pytest.mark.parametrize("moment", DISCARDS)
async def test_killed_during_a_discard_every_letter_waits_or_is_kept_and_none_is_kept_twice(
    moment: str, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    url = new_vhost()
    environ = {"AMQP_URL": url, "CLOUD_DATABASE_URL": cloud_url}
    command = ("dlq", "discard", "--service", SERVICE, "--all", "--yes")
    async with filled(url, *map(letter, range(COUNT))):
        pass

    assert await run_farmiq(environ, *command, dies=DISCARDS[moment]) == -signal.SIGKILL

    kept = await kept_ids(cloud_pool)
    await until_all_wait(cloud_pool, url, {*numbered(range(COUNT))} - {*kept})
    assert await run_farmiq(environ, *command) == 0
    assert sorted(await kept_ids(cloud_pool)) == sorted(numbered(range(COUNT)))
    assert await waiting_ids(cloud_pool, url) == []
    # promise-cloud 13: each is in the loss ledger once.
    assert await cloud_pool.fetchval("SELECT sum(count) FROM station_losses WHERE reason = 'discarded'") == COUNT


async def kept_ids(pool: Pool) -> list[str]:
    return [row["message_id"] for row in await pool.fetch("SELECT message_id FROM discarded_letters")]


async def look_fifty_times(pool: Pool, environ: dict[str, str], publisher: Publisher) -> None:
    """With a new letter before each look. Every fifth is killed with the letter in hand."""
    deaths = itertools.cycle(LOOKS)
    for look in range(50):
        assert await publisher.publish_many([letter(COUNT + look)]) == [None]
        if look % 5 == 4:
            assert await run_farmiq(environ, "dlq", "ls", "--service", SERVICE, dies=next(deaths)) == -signal.SIGKILL
            await until_all_wait(pool, environ["AMQP_URL"], {*numbered(range(COUNT + look + 1))})
        else:
            async with pool.acquire() as connection:
                summary = await handlers.summarize(connection, environ["AMQP_URL"], SERVICE, ALL)
            assert (summary.messages, summary.seen) == (COUNT + look + 1, COUNT + look + 1)


async def test_fifty_looks_ten_of_them_killed_leave_every_letter_under_the_limit_of_rabbitmq_4(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost
) -> None:
    """On the RabbitMQ of this system, whose queue gets the limit that RabbitMQ 4 has by default."""
    environ = {"AMQP_URL": new_vhost(), "CLOUD_DATABASE_URL": cloud_url}
    async with filled_queue(environ["AMQP_URL"], *map(letter, range(COUNT)), delivery_limit=20) as publisher:
        await look_fifty_times(cloud_pool, environ, publisher)

    assert await waiting_ids(cloud_pool, environ["AMQP_URL"]) == numbered(range(COUNT + 50))


@pytest.mark.timeout(600)
async def test_fifty_looks_ten_of_them_killed_leave_every_letter_on_rabbitmq_4(
    cloud_url: str, cloud_pool: Pool, debian13_rabbitmq: RabbitMq
) -> None:
    url = debian13_rabbitmq.url()
    environ = {"AMQP_URL": url, "CLOUD_DATABASE_URL": cloud_url}
    async with filled(url, *map(letter, range(COUNT))) as publisher:
        assert await returned_until_dropped(url) == 21, "a RabbitMQ without the limit proves nothing"
        await look_fifty_times(cloud_pool, environ, publisher)

    assert await waiting_ids(cloud_pool, url) == numbered(range(COUNT + 50))


async def returned_until_dropped(url: str) -> int:
    """How often a message of a dead-letter queue can be taken and returned before RabbitMQ drops it."""
    other = WORK_QUEUES["cloud-media-store"].dead_letter_queue
    async with connected(url, "test") as connection:
        channel = await connection.channel(publisher_confirms=True)
        await channel.basic_publish(b"{}", routing_key=other)
        for times in range(100):
            message = await channel.basic_get(other)
            if isinstance(message.delivery, Basic.GetEmpty):
                return times
            assert message.delivery_tag is not None
            await channel.basic_nack(message.delivery_tag, requeue=True)
            await channel.basic_qos(prefetch_count=1)
    return 100

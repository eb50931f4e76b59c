"""RabbitMQ restarted and killed under a worker: a node of its own."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from farmiq.kit.errors import Transient
from farmiq.kit.postgres import Pool, open_pool
from farmiq.stack.rabbitmq import RabbitMq
from support.bus_work import DEAD_LETTERS, EXCHANGE, ROUTING_KEY, TABLE, Numbers, publishing, working
from support.postgres import NewDatabase
from support.server_process import ServerProcess
from support.waiting import eventually


@pytest.fixture
async def pool(new_database: NewDatabase) -> AsyncIterator[Pool]:
    async with await open_pool(new_database(), service="test") as pool:
        await pool.execute(TABLE)
        yield pool


async def test_a_broker_that_was_killed_and_one_that_was_restarted_are_found_again_and_nothing_is_missing(
    rabbitmq_server: ServerProcess, pool: Pool
) -> None:
    """Good messages, messages that fail once, and poison, before, during and after."""
    server = rabbitmq_server.server
    assert isinstance(server, RabbitMq)
    work = Numbers(pool, bugs=dict.fromkeys(range(7, 3000, 50), 1))
    confirmed: set[int] = set()
    poison: set[str] = set()
    is_over = asyncio.Event()

    async def has_confirmed(count: int) -> bool:
        return len(confirmed) >= count

    async def has_stored_all() -> bool:
        return set(await work.stored()) >= confirmed

    async with working(server.url(), work) as worker, publishing(server.url()) as publisher:

        async def publish_for_ever() -> None:
            for number in range(100, 3000):
                if is_over.is_set():
                    return
                bad = number % 20 == 0
                body = f"rubbish {number}" if bad else str(number)
                try:
                    await publisher.publish(EXCHANGE, ROUTING_KEY, body.encode(), message_id=f"id-{number}")
                except Transient:
                    await asyncio.sleep(0.05)
                    continue
                if bad:
                    poison.add(body)
                else:
                    confirmed.add(number)

        publishing_now = asyncio.create_task(publish_for_ever())
        await eventually(lambda: has_confirmed(50), 60)
        await asyncio.to_thread(rabbitmq_server.kill)
        await asyncio.to_thread(rabbitmq_server.start)
        before = len(confirmed)
        await eventually(lambda: has_confirmed(before + 50), 60)
        await asyncio.to_thread(rabbitmq_server.restart)
        before = len(confirmed)
        await eventually(lambda: has_confirmed(before + 50), 60)
        is_over.set()
        await publishing_now
        await eventually(has_stored_all, 60, "every number that was confirmed to be stored")

        async def are_dead() -> bool:
            depths = await worker.publisher.depths([DEAD_LETTERS])
            return (depths[DEAD_LETTERS] or 0) >= len(poison)

        await eventually(are_dead, 60, "every poison to be with the dead letters")
    assert poison

"""The consumer is killed while it moves poison to the dead letters, on both sides of the confirmation."""

import asyncio
from pathlib import Path

import pytest

from farmiq.contracts import bus, event_types
from farmiq.kit.amqp import Outgoing
from farmiq.kit.postgres import Pool
from support.dead_letters import DEAD_LETTERS, QUEUE, SERVICE, filled, ids_in
from support.rabbitmq import NewVirtualHost
from support.service_process import Death, service_process
from support.waiting import eventually

# How often each of the three letters may be there in the end.
DEATHS: dict[str, tuple[Death, set[int]]] = {
    "before the dead letters have it": (("farmiq.kit.amqp:Publisher.publish_many", "before", 1), {1}),
    "between their confirmation and the acknowledgement": (
        ("farmiq.kit.amqp:Publisher.publish_many", "after", 1),
        {1, 2},
    ),
}


@pytest.mark.parametrize("moment", DEATHS)
async def test_killed_while_poison_is_moved_none_of_it_is_lost_and_its_queue_is_empty(
    moment: str, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    dies, times = DEATHS[moment]
    amqp_url = new_vhost()
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": "for-this-test"}
    poison = [
        Outgoing(bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_INGESTED, b"{", f"poison-{number}")
        for number in range(3)
    ]
    async with filled(amqp_url) as publisher:
        with service_process(SERVICE, environ, run_folder, tmp_path / "first.log", dies) as service:
            assert await publisher.publish_many(poison) == [None] * 3
            await asyncio.to_thread(service.wait_for_death)

        async def is_back_in_the_queue() -> bool:
            depths = await publisher.depths([QUEUE])
            return (depths[QUEUE] or 0) > 0

        await eventually(is_back_in_the_queue)
        with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):

            async def has_moved() -> bool:
                depths = await publisher.depths([QUEUE, DEAD_LETTERS])
                return depths[QUEUE] == 0 and (depths[DEAD_LETTERS] or 0) >= 3

            await eventually(has_moved)
        found = await ids_in(amqp_url, DEAD_LETTERS)
    assert set(found) == {message.message_id for message in poison}
    assert {found.count(one) for one in found} <= times

"""A storm of poison on the bus beside an edge's good traffic: the good is stored, the poison kept with its reason."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import aio_pika
import msgspec

from farmiq.contracts import bus, event_types
from farmiq.kit import bus_headers
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from support.bus_queue import take_messages
from support.cloud_traffic import WORK_QUEUE, Cloud, cloud
from support.entrance import event, send, statuses
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

EVENTS = 1_000
POISON = 1_000
BATCH = 250
AT_ONCE = 50
SHARE_KEPT = 0.1
"""Of the speed without a storm. What spoils a transaction is found by halving, so a storm of it does cost something."""


def poison(number: int, taken_ids: Sequence[str]) -> tuple[str, bytes]:
    """Its reason and its body. Every fourth can be read, and spoils the transaction that it is in."""
    match number % 4:
        case 0:
            taken = UUID(taken_ids[number % len(taken_ids)])
            return "event_id_reused", msgspec.json.encode(event(taken, device_id="another-device"))
        case 1:
            return "not_json", f'{{"event_id": number {number}'.encode()
        case 2:
            return "schema", msgspec.json.encode(event(payload={"metric_type": f"temperature-{number}"}))
        case _:
            return "too_deep", b"[" * (40 + number)


async def publish_storm(amqp_url: str, bodies: Sequence[bytes]) -> None:
    """By another client than ours, as fast as it can."""
    async with await aio_pika.connect(amqp_url) as connection:
        exchange = await (await connection.channel()).get_exchange(bus.TELEMETRY_EXCHANGE)
        for first in range(0, len(bodies), AT_ONCE):
            messages = [
                aio_pika.Message(body, message_id=str(new_id()), headers={"from": "a storm"}, delivery_mode=2)
                for body in bodies[first : first + AT_ONCE]
            ]
            await asyncio.gather(*(exchange.publish(one, event_types.TELEMETRY_INGESTED) for one in messages))


async def store_readings(here: Cloud, url: str) -> tuple[list[str], float]:
    """Through the entrance, until they are stored: their ids, and how many a second that were."""
    before, events = await here.stored(), [event() for _ in range(EVENTS)]
    begun_at = time.monotonic()
    for first in range(0, EVENTS, BATCH):
        _, answer, _ = await send(url, *events[first : first + BATCH])
        assert set(statuses(answer)) == {"accepted"}

    async def are_stored() -> bool:
        return await here.stored() == before + EVENTS

    await eventually(are_stored, 120.0, f"{EVENTS} readings in the cloud")
    return [one["event_id"] for one in events], EVENTS / (time.monotonic() - begun_at)


async def test_poison_storm_is_dead_lettered_as_it_came_and_slows_good_readings_by_less_than_ten(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    amqp_url = new_vhost()
    async with cloud(cloud_pool, cloud_url, amqp_url, run_folder, tmp_path) as here:
        ingestion, telemetry = await here.ingestion(), await here.telemetry_service()
        await store_readings(here, ingestion.url)  # until everybody is connected
        calm_ids, calm = await store_readings(here, ingestion.url)
        bad = [poison(number, calm_ids) for number in range(POISON)]
        async with asyncio.TaskGroup() as group:
            group.create_task(publish_storm(amqp_url, [body for _, body in bad]))
            stormy = group.create_task(store_readings(here, ingestion.url))
        stormy_ids, in_storm = stormy.result()

        async def is_over() -> bool:
            return (await here.depths())[WORK_QUEUE.dead_letter_queue] == POISON

        await eventually(is_over, 120.0, "all poison among the dead letters")
        await here.stop(telemetry)
        assert set((await here.depths()).values()) == {0, POISON}
        await check_letters(amqp_url, bad)
        rows = await cloud_pool.fetch("SELECT id::text, tenant_id FROM telemetry_raw")
        assert {row["id"] for row in rows} >= {*calm_ids, *stormy_ids}
        assert [row["tenant_id"] for row in rows] == ["demo"] * 3 * EVENTS
        assert in_storm >= calm * SHARE_KEPT


async def check_letters(amqp_url: str, bad: Sequence[tuple[str, bytes]]) -> None:
    letters = await take_messages(amqp_url, WORK_QUEUE.dead_letter_queue)
    told = [(letter.header.properties.headers or {}, letter.body) for letter in letters]
    assert Counter((headers[bus_headers.REASON], body) for headers, body in told) == Counter(bad)
    assert {headers["from"] for headers, _ in told} == {"a storm"}
    assert {headers[bus_headers.ROUTING_KEY] for headers, _ in told} == {event_types.TELEMETRY_INGESTED}

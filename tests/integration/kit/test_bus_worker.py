"""What becomes of a message, against a real RabbitMQ and a real PostgreSQL."""

import asyncio
import struct
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import aiormq
import pytest
from pamqp import encode
from pamqp.commands import Basic

from farmiq.kit import bus_headers
from farmiq.kit.amqp import Delivery
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.metrics import render
from farmiq.kit.postgres import Pool, open_pool
from support.bus_work import (
    DEAD_LETTERS,
    EXCHANGE,
    QUEUE,
    ROUTING_KEY,
    TABLE,
    WORK_QUEUE,
    Numbers,
    publish,
    publishing,
    working,
)
from support.postgres import NewDatabase
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually

Message = tuple[bytes, Basic.Properties]


@pytest.fixture
def url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
async def pool(new_database: NewDatabase) -> AsyncIterator[Pool]:
    async with await open_pool(new_database(), service="test") as pool:
        await pool.execute(TABLE)
        yield pool


async def take(url: str, queue: str, count: int) -> list[Message]:
    """As many messages as that, taken out of the queue."""
    found: list[Message] = []
    async with aiormq.connect(url) as connection:
        channel = await connection.channel()

        async def are_there() -> bool:
            message = await channel.basic_get(queue, no_ack=True)
            if not isinstance(message.delivery, Basic.GetEmpty):
                found.append((message.body, message.header.properties))
            return len(found) >= count

        await eventually(are_there, what=f"{count} messages in {queue}")
    return found


def headers_of(message: Message) -> dict[str, Any]:
    """Without what RabbitMQ adds to whatever is taken out of a quorum queue."""
    return {name: value for name, value in (message[1].headers or {}).items() if name != "x-delivery-count"}


async def has_stored(work: Numbers, *numbers: int) -> bool:
    return await work.stored() == list(numbers)


async def test_what_is_never_good_goes_to_the_dead_letters_at_once_with_the_reason_and_its_neighbours_are_stored(
    url: str, pool: Pool
) -> None:
    work = Numbers(pool, refused=frozenset({5}))
    async with working(url, work), publishing(url) as publisher:
        await publish(publisher, 1, b"rubbish", 2, 13, 5, b"bug", b"nothing", 3)
        dead = {body: (body, properties) for body, properties in await take(url, DEAD_LETTERS, 4)}
        await eventually(lambda: has_stored(work, 1, 2, 3))

    reasons = {body: headers_of(message)[bus_headers.REASON] for body, message in dead.items()}
    assert reasons == {b"rubbish": "not_a_number", b"13": "not_storable", b"5": "refused", b"bug": "unreadable"}
    headers = headers_of(dead[b"rubbish"])
    assert headers.pop(bus_headers.DETAIL) == "rubbish is no number"
    assert datetime.fromisoformat(headers.pop(bus_headers.FAILED_AT)).tzinfo == UTC
    assert headers == {
        "x-trace-id": "t-1",
        bus_headers.REASON: "not_a_number",
        bus_headers.QUEUE: QUEUE,
        bus_headers.EXCHANGE: EXCHANGE,
        bus_headers.ROUTING_KEY: ROUTING_KEY,
        bus_headers.ATTEMPTS: 1,
    }


async def test_a_dead_letter_has_the_body_the_id_the_headers_and_the_properties_of_the_original(
    url: str, pool: Pool
) -> None:
    headers: Any = {
        "x-edge": "barn-1",
        "n": 70_000,
        "when": datetime(2025, 1, 1, tzinfo=UTC),
        "nested": {"a": [1, None]},
    }
    properties = Basic.Properties(
        message_id="from-elsewhere",
        headers=headers,
        content_type="application/x-odd",
        correlation_id="c-1",
        timestamp=datetime(2025, 1, 1, tzinfo=UTC),
        app_id="another-client",
        expiration="3600000",
        user_id="farmiq",
        priority=3,
    )
    body = b"\x00\xff not utf-8 \xed\xa0\x80"
    async with working(url, Numbers(pool)), aiormq.connect(url) as connection:
        channel = await connection.channel()
        await channel.basic_publish(body, exchange=EXCHANGE, routing_key=ROUTING_KEY, properties=properties)
        [(found, kept)] = await take(url, DEAD_LETTERS, 1)

    assert found == body
    assert {name: (kept.headers or {})[name] for name in headers} == headers
    for name in ("message_id", "content_type", "correlation_id", "timestamp", "app_id", "priority"):
        assert getattr(kept, name) == getattr(properties, name)
    # It would otherwise be gone before a person has seen it.
    assert kept.expiration is None


async def test_a_message_that_fails_for_no_known_reason_is_tried_again_later_and_later_and_its_neighbours_do_not_wait(
    url: str, pool: Pool
) -> None:
    work = Numbers(pool, bugs={7: 2})
    async with working(url, work), publishing(url) as publisher:
        await publish(publisher, 1, 7, 2)
        await eventually(lambda: has_stored(work, 1, 2))
        await eventually(lambda: has_stored(work, 1, 2, 7))

    tries = [one for one in work.seen if one.body == b"7"]
    assert [bus_headers.attempts_of(one.headers) for one in tries] == [0, 1, 2]
    assert {(one.exchange, one.routing_key, one.headers["x-trace-id"]) for one in tries} == {
        (EXCHANGE, ROUTING_KEY, "t-1")
    }
    assert [one.headers["x-death"][0]["queue"] for one in tries[1:]] == [
        queue.name for queue in WORK_QUEUE.retry_queues()[:2]
    ]


async def test_after_its_last_try_it_is_with_the_dead_letters_and_nowhere_else(url: str, pool: Pool) -> None:
    work = Numbers(pool, bugs={7: 100})
    async with working(url, work) as worker, publishing(url) as publisher:
        await publish(publisher, 7)
        [dead] = await take(url, DEAD_LETTERS, 1)
        depths = await worker.publisher.depths(WORK_QUEUE.queue_names())

    assert headers_of(dead)[bus_headers.ATTEMPTS] == 4
    assert headers_of(dead)[bus_headers.REASON] == "unexpected_error"
    assert headers_of(dead)[bus_headers.DETAIL] == "LookupError: nobody foresaw 7"
    assert set(depths.values()) == {0}
    assert len([one for one in work.seen if one.body == b"7"]) == 4


async def test_each_wait_is_at_least_as_long_as_its_queue_says(url: str, pool: Pool) -> None:
    failed_at: list[datetime] = []

    class Timed(Numbers):
        def read(self, delivery: Delivery) -> int | None:
            if bus_headers.FAILED_AT in delivery.headers:
                failed_at.append(datetime.fromisoformat(delivery.headers[bus_headers.FAILED_AT]))
            return super().read(delivery)

    async with working(url, Timed(pool, bugs={7: 100})), publishing(url) as publisher:
        await publish(publisher, 7)
        [dead] = await take(url, DEAD_LETTERS, 1)

    times = [*failed_at, datetime.fromisoformat(headers_of(dead)[bus_headers.FAILED_AT])]
    waits = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert len(waits) == 3
    assert all(wait >= seconds for wait, seconds in zip(waits, WORK_QUEUE.retry_seconds, strict=True))


async def test_headers_that_our_client_can_not_write_as_they_are_stay_as_they_are(
    url: str, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes numbers with a fraction in half the bytes that other clients do. RabbitMQ moves such a message itself."""
    exact = 1735725600.125
    async with publishing(url) as publisher, aiormq.connect(url) as connection:
        channel = await connection.channel()
        with monkeypatch.context() as other_client:
            other_client.setattr(encode, "encode_table_value", lambda value: b"d" + struct.pack(">d", value))
            properties = Basic.Properties(headers={"exact": exact})
            await channel.basic_publish(b"rubbish", routing_key=QUEUE, properties=properties)
        async with working(url, Numbers(pool)):
            [dead] = await take(url, DEAD_LETTERS, 1)
        assert await publisher.depths([QUEUE]) == {QUEUE: 0}

    assert headers_of(dead)["exact"] == exact
    assert headers_of(dead)["x-first-death-reason"] == "rejected"


async def test_a_poison_storm_beside_good_traffic_costs_the_good_ones_little_and_loses_nothing(
    url: str, pool: Pool
) -> None:
    """Poison that only the database finds out: the micro-batch is halved around it."""
    work = Numbers(pool)
    good, batch_messages = [number for number in range(300) if number != 13], 100
    async with publishing(url) as publisher:
        await publish(publisher, *good, *[13] * 12)
        async with working(url, work, batch_messages=batch_messages):
            assert len(await take(url, DEAD_LETTERS, 12)) == 12
            await eventually(lambda: has_stored(work, *good))

    assert len(work.sizes) < len(good) / 2


async def test_a_database_that_is_away_is_waited_for_and_costs_no_attempt(url: str, pool: Pool) -> None:
    away = 3

    def lose_connection() -> None:
        nonlocal away
        if away:
            away -= 1
            raise ConnectionResetError("the database is away")

    work = Numbers(pool, before_commit=lose_connection)
    async with working(url, work) as worker, publishing(url) as publisher:
        await publish(publisher, 1)
        await eventually(lambda: has_stored(work, 1))
        depths = await worker.publisher.depths(WORK_QUEUE.queue_names())

    assert away == 0
    assert set(depths.values()) == {0}


async def test_asked_to_stop_it_finishes_what_it_has_in_hand_and_gives_the_rest_back(url: str, pool: Pool) -> None:
    life = Lifetime("test-service")
    work = Numbers(pool, before_commit=life.stopping.set)
    async with publishing(url) as publisher:
        await publish(publisher, *range(1, 10))
        async with working(url, work, life, batch_messages=4):
            await asyncio.wait_for(life.stopping.wait(), 20)

        stored = await work.stored()

        async def has_the_others_again() -> bool:
            return await publisher.depths([QUEUE]) == {QUEUE: 9 - len(stored)}

        await eventually(has_the_others_again, what="the queue to have again all but the first batch")
    assert 1 <= len(stored) <= 4


async def test_asked_to_stop_while_the_database_is_away_it_does_not_wait_for_it(url: str, pool: Pool) -> None:
    life = Lifetime("test-service")

    def lose_connection() -> None:
        life.stopping.set()
        raise ConnectionResetError("the database is away")

    async with publishing(url) as publisher:
        await publish(publisher, 1)
        async with working(url, Numbers(pool, before_commit=lose_connection), life):
            await asyncio.wait_for(life.stopping.wait(), 20)

        async def is_there_again() -> bool:
            return await publisher.depths([QUEUE]) == {QUEUE: 1}

        await eventually(is_there_again, what="the message to be in the queue again")


async def test_a_slow_worker_holds_no_more_than_two_micro_batches(url: str, pool: Pool) -> None:
    life = Lifetime("test-service")
    hold = asyncio.Event()

    class Slow(Numbers):
        async def commit(self, items: Any) -> Any:
            await hold.wait()
            return await super().commit(items)

    work = Slow(pool)
    async with publishing(url) as publisher:
        await publish(publisher, *range(100, 200))
        async with working(url, work, life, batch_messages=10) as worker:

            async def has_taken_what_it_may() -> bool:
                return await publisher.depths([QUEUE]) == {QUEUE: 80}

            await eventually(has_taken_what_it_may)
            assert len(worker.consumer._inbox) <= 20
            hold.set()
            await eventually(lambda: has_stored(work, *range(100, 200)))


async def test_a_worker_whose_dead_letter_queue_was_deleted_makes_it_again(url: str, pool: Pool) -> None:
    async with working(url, Numbers(pool)), publishing(url) as publisher:
        async with aiormq.connect(url) as connection:
            await (await connection.channel()).queue_delete(DEAD_LETTERS)
        await publish(publisher, b"rubbish")

        async def is_there() -> bool:
            return (await publisher.depths([DEAD_LETTERS]))[DEAD_LETTERS] is not None

        await eventually(is_there)
        [dead] = await take(url, DEAD_LETTERS, 1)
    assert dead[0] == b"rubbish"


async def test_a_database_that_is_not_as_it_should_be_ends_the_service_with_nothing_acknowledged(
    url: str, pool: Pool
) -> None:
    await pool.execute("DROP TABLE numbers")
    async with publishing(url) as publisher:
        await publish(publisher, 1, 2)
        with pytest.raises(BaseExceptionGroup) as caught:
            async with working(url, Numbers(pool)) as worker:
                await eventually(lambda: _is_down(worker.consumer.is_connected))
        assert "numbers" in str(caught.value.exceptions[0])

        async def are_there_again() -> bool:
            return await publisher.depths([QUEUE, DEAD_LETTERS]) == {QUEUE: 2, DEAD_LETTERS: 0}

        await eventually(are_there_again, what="both messages to be in the queue again")


async def test_the_metrics_say_what_happened_by_queue(url: str, pool: Pool) -> None:
    life = Lifetime("test-service")
    work = Numbers(pool, bugs={7: 1})
    async with working(url, work, life), publishing(url) as publisher:
        await publish(publisher, 1, 2, 7, b"rubbish")
        await eventually(lambda: has_stored(work, 1, 2, 7))
        await take(url, DEAD_LETTERS, 1)
        told = render(life.registry).decode()

    for line in (
        f'farmiq_bus_messages_done_total{{queue="{QUEUE}"}} 3.0',
        f'farmiq_bus_messages_retried_total{{queue="{QUEUE}",reason="unexpected_error"}} 1.0',
        f'farmiq_bus_messages_dead_lettered_total{{queue="{QUEUE}",reason="not_a_number"}} 1.0',
        f'farmiq_bus_connected{{queue="{QUEUE}"}}',
        f'bus_batch_seconds_count{{queue="{QUEUE}"}}',
    ):
        assert line in told


async def _is_down(is_connected: bool) -> bool:
    return not is_connected

"""What `kit.amqp` promises, against a real RabbitMQ."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiormq
import msgspec
import pytest
from structlog.testing import capture_logs

from farmiq.kit.amqp import BusAway, BusRefused, Consumer, Delivery, Outgoing, Publisher, TopologyGone, Unroutable
from farmiq.kit.amqp_topology import Binding, Exchange, IncompatibleTopology, Queue, Topology, declare
from farmiq.stack.rabbitmq import RabbitMq
from support.rabbitmq import NewVirtualHost, control
from support.waiting import eventually

EXCHANGE, QUEUE, DLQ = "farm.exchange", "farm.ingest.queue", "farm.dlq.queue"
TOPOLOGY = Topology(
    exchanges=(Exchange(EXCHANGE),),
    queues=(Queue(DLQ), Queue(QUEUE, dead_letter_queue=DLQ, delivery_limit=3)),
    bindings=(Binding(EXCHANGE, QUEUE, "telemetry.#"),),
    rest_seconds=0.0,
)

New = Callable[..., Awaitable[Any]]


@pytest.fixture
def vhost_url(new_vhost: NewVirtualHost) -> str:
    return new_vhost()


@pytest.fixture
async def start(vhost_url: str) -> AsyncIterator[New]:
    """Starts a publisher or a consumer of the test's own virtual host, and stops it after the test."""
    started: list[Publisher | Consumer] = []

    async def make(kind: type[Publisher | Consumer], *arguments: str, **options: Any) -> Publisher | Consumer:
        made = kind(vhost_url, *arguments, name="test", **({"topology": TOPOLOGY} | options))
        started.append(made)
        await made.start()
        await asyncio.wait_for(made.wait_connected(), 20)
        return made

    yield make
    await asyncio.gather(*(one.stop() for one in started))


@pytest.fixture
def cut_connections(request: pytest.FixtureRequest, vhost_url: str) -> Callable[[], None]:
    """Ends every connection to the test's virtual host, from the broker's side."""
    server: RabbitMq = request.getfixturevalue("_rabbitmq")
    name = urlsplit(vhost_url).path.lstrip("/")
    mine = f'[{{vhost, <<"{name}">>}}] =:= rabbit_networking:connection_info(Pid, [vhost])'
    closing = 'fun(Pid) -> rabbit_networking:close_connection(Pid, "cut by a test") end'
    return lambda: control(server, f"lists:foreach({closing}, [Pid || Pid <- rabbit_networking:connections(), {mine}])")


async def take(consumer: Consumer, count: int) -> list[Delivery]:
    taken: list[Delivery] = []
    async with asyncio.timeout(20):
        while len(taken) < count:
            taken += await consumer.next_batch(count - len(taken), 0.05)
    return taken


def bodies(deliveries: list[Delivery]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


def numbered(count: int, routing_key: str = "telemetry.ingested") -> list[Outgoing]:
    return [Outgoing(EXCHANGE, routing_key, str(number).encode(), f"id-{number}") for number in range(count)]


async def test_a_published_message_arrives_with_its_id_and_headers(start: New) -> None:
    publisher = await start(Publisher)
    consumer = await start(Consumer, QUEUE, prefetch=10)

    await publisher.publish(EXCHANGE, "telemetry.ingested", b"body", message_id="id-1", headers={"trace_id": "t-1"})

    [delivery] = await take(consumer, 1)
    assert (delivery.body, delivery.message_id, delivery.headers) == (b"body", "id-1", {"trace_id": "t-1"})
    assert (delivery.exchange, delivery.routing_key, delivery.is_redelivered) == (EXCHANGE, "telemetry.ingested", False)


async def test_a_message_that_no_queue_wants_comes_back_and_goes_through_once_one_does(
    start: New, vhost_url: str
) -> None:
    publisher = await start(Publisher)

    with pytest.raises(Unroutable, match=f"{EXCHANGE} for sync.batch.sent"):
        await publisher.publish(EXCHANGE, "sync.batch.sent", b"body", message_id="id-1")

    late = Topology(bindings=(Binding(EXCHANGE, QUEUE, "sync.#"),))
    consumer = await start(Consumer, QUEUE, prefetch=10, topology=late)
    await publisher.publish(EXCHANGE, "sync.batch.sent", b"body", message_id="id-1")
    assert bodies(await take(consumer, 1)) == [b"body"]


async def test_publish_many_answers_for_each_message_in_order(start: New) -> None:
    publisher = await start(Publisher, inflight_max=50)
    consumer = await start(Consumer, QUEUE, prefetch=500)
    messages = numbered(300)
    messages[100] = Outgoing(EXCHANGE, "nobody.wants.this", b"lost?", "id-unroutable")

    answers = await publisher.publish_many(messages)

    assert [index for index, answer in enumerate(answers) if answer is not None] == [100]
    assert isinstance(answers[100], Unroutable)
    assert sorted(bodies(await take(consumer, 299))) == sorted(m.body for m in messages if m.body != b"lost?")


async def test_two_messages_with_one_id_under_way_together_are_both_told_that_no_queue_wants_them(start: New) -> None:
    publisher = await start(Publisher)

    answers = await publisher.publish_many([Outgoing(EXCHANGE, "nobody.wants.this", b"body", "same-id")] * 20)

    assert all(isinstance(answer, Unroutable) for answer in answers)


async def test_a_missing_exchange_fails_the_message_and_the_publisher_recovers(start: New) -> None:
    publisher = await start(Publisher)
    consumer = await start(Consumer, QUEUE, prefetch=10)

    with pytest.raises(BusAway, match=r"no exchange 'no\.such\.exchange'"):
        await publisher.publish("no.such.exchange", "key", b"body", message_id="id-1")
    await eventually(lambda: _publishes(publisher))

    assert bodies(await take(consumer, 1)) == [b"probe"]


async def test_a_full_queue_refuses_instead_of_dropping(start: New) -> None:
    small = Topology(
        exchanges=(Exchange(EXCHANGE),),
        queues=(Queue("small.queue", bytes_max=4000),),
        bindings=(Binding(EXCHANGE, "small.queue", "small.#"),),
        rest_seconds=0.0,
    )
    publisher = await start(Publisher, topology=small)
    confirmed = 0

    async def is_refused() -> bool:
        nonlocal confirmed
        try:
            await publisher.publish(EXCHANGE, "small.one", b"x" * 1000, message_id=f"id-{confirmed}")
        except BusRefused:
            return True
        confirmed += 1
        return False

    await eventually(is_refused)
    consumer = await start(Consumer, "small.queue", prefetch=100, topology=small)
    assert len(await take(consumer, confirmed)) == confirmed


async def test_what_was_not_acknowledged_is_delivered_again_after_the_consumer_is_killed(
    start: New, vhost_url: str
) -> None:
    publisher = await start(Publisher)
    assert await publisher.publish_many(numbered(3)) == [None] * 3
    program = str(Path(__file__).with_name("amqp_taker.py"))
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, vhost_url, QUEUE, "3", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            while await process.stdout.readline() != b"taken\n":  # log lines come before it
                assert not process.stdout.at_eof()
    finally:
        process.kill()
        await process.wait()

    consumer = await start(Consumer, QUEUE, prefetch=10)
    again = await take(consumer, 3)

    assert sorted(bodies(again)) == [b"0", b"1", b"2"]
    assert all(delivery.is_redelivered for delivery in again)


async def test_what_was_acknowledged_is_not_delivered_again(start: New) -> None:
    publisher = await start(Publisher)
    await publisher.publish_many(numbered(4))
    first = await start(Consumer, QUEUE, prefetch=10)
    taken = {delivery.body: delivery for delivery in await take(first, 4)}
    await first.acknowledge([taken[b"0"], taken[b"2"]])
    await first.stop()

    second = await start(Consumer, QUEUE, prefetch=10)
    again = await take(second, 2)
    await second.acknowledge(again)
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"marker", message_id="marker")

    assert sorted(bodies(again)) == [b"1", b"3"]
    assert bodies(await take(second, 1)) == [b"marker"]


async def test_acknowledging_a_delivery_of_an_older_connection_acknowledges_nothing(
    start: New, cut_connections: Callable[[], None]
) -> None:
    publisher = await start(Publisher)
    consumer = await start(Consumer, QUEUE, prefetch=10)
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"reading", message_id="id-1")
    [old] = await take(consumer, 1)
    await asyncio.to_thread(cut_connections)
    [new] = await take(consumer, 1)

    await consumer.acknowledge([old])
    await consumer.stop()
    successor = await start(Consumer, QUEUE, prefetch=10)

    assert (old.body, new.body) == (b"reading", b"reading")
    assert new.connection > old.connection
    assert bodies(await take(successor, 1)) == [b"reading"]


async def test_a_message_given_back_comes_again_until_its_limit_and_then_to_the_dead_letter_queue(start: New) -> None:
    publisher = await start(Publisher)
    consumer = await start(Consumer, QUEUE, prefetch=10)
    morgue = await start(Consumer, DLQ, prefetch=10)
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"reading", message_id="id-1")

    for _ in range(4):  # once, and three times more
        await consumer.requeue(await take(consumer, 1))

    [dead] = await take(morgue, 1)
    assert (dead.body, dead.message_id) == (b"reading", "id-1")
    assert dead.headers["x-first-death-reason"] == "delivery_limit"


async def test_a_message_that_will_never_be_good_goes_to_the_dead_letter_queue_at_once(start: New) -> None:
    publisher = await start(Publisher)
    consumer = await start(Consumer, QUEUE, prefetch=10)
    morgue = await start(Consumer, DLQ, prefetch=10)
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"poison", message_id="id-1")

    await consumer.dead_letter(await take(consumer, 1))

    [dead] = await take(morgue, 1)
    assert dead.headers["x-first-death-reason"] == "rejected"
    assert dead.headers["x-first-death-queue"] == QUEUE


async def test_a_consumer_whose_queue_was_deleted_makes_it_again_and_goes_on(start: New, vhost_url: str) -> None:
    publisher = await start(Publisher)
    consumer = await start(Consumer, QUEUE, prefetch=10)
    async with aiormq.connect(vhost_url) as connection:
        await (await connection.channel()).queue_delete(QUEUE)

    await eventually(lambda: _publishes(publisher))

    assert bodies(await take(consumer, 1)) == [b"probe"]


async def test_a_binding_that_was_deleted_is_told_and_made_again(start: New, vhost_url: str) -> None:
    publisher = await start(Publisher)
    async with aiormq.connect(vhost_url) as connection:
        await (await connection.channel()).queue_unbind(QUEUE, EXCHANGE, "telemetry.#")

    with pytest.raises(TopologyGone, match="is gone, and is made again"):
        await publisher.publish(EXCHANGE, "telemetry.ingested", b"reading", message_id="id-1")
    await eventually(lambda: _publishes(publisher))

    assert bodies(await take(await start(Consumer, QUEUE, prefetch=10), 1)) == [b"probe"]


async def test_a_queue_is_bound_after_it_has_rested_also_by_a_replica_that_found_it_there(vhost_url: str) -> None:
    """The first of two replicas has made the queue a moment ago and still lets it rest."""
    rested = msgspec.structs.replace(TOPOLOGY, rest_seconds=0.5)
    async with aiormq.connect(vhost_url) as connection:
        await declare(await connection.channel(), msgspec.structs.replace(TOPOLOGY, bindings=()))
        started = time.monotonic()
        publisher = Publisher(vhost_url, name="test")
        await publisher.start()
        await publisher.wait_connected()
        second = asyncio.create_task(_declare(connection, rested))

        async def is_bound() -> bool:
            try:
                await publisher.publish(EXCHANGE, "telemetry.ingested", b"reading", message_id="id-1")
            except Unroutable:
                return False
            return True

        await eventually(is_bound)
        assert time.monotonic() - started >= 0.5
        await second
        await publisher.stop()


async def test_declaring_twice_changes_nothing(start: New, vhost_url: str) -> None:
    publisher = await start(Publisher)
    await publisher.publish(EXCHANGE, "telemetry.ingested", b"reading", message_id="id-1")

    async with aiormq.connect(vhost_url) as connection:
        channel = await connection.channel()
        await declare(channel, TOPOLOGY)
        await declare(channel, TOPOLOGY)

    assert bodies(await take(await start(Consumer, QUEUE, prefetch=10), 1)) == [b"reading"]


@pytest.mark.parametrize("kind", ["queue", "exchange"])
async def test_what_exists_with_other_settings_is_named_and_left_alone(vhost_url: str, kind: str) -> None:
    async with aiormq.connect(vhost_url) as connection:
        channel = await connection.channel()
        name = QUEUE if kind == "queue" else EXCHANGE
        if kind == "queue":
            await channel.queue_declare(QUEUE, durable=True)
            await channel.basic_publish(b"precious", routing_key=QUEUE)
        else:
            await channel.exchange_declare(EXCHANGE, exchange_type="fanout", durable=True)
        publisher = Publisher(vhost_url, name="test", topology=TOPOLOGY)
        consumer = Consumer(vhost_url, QUEUE, name="test", prefetch=10, topology=TOPOLOGY)
        await publisher.start()
        await consumer.start()

        for attempt in (
            publisher.wait_connected(),
            publisher.publish(EXCHANGE, "telemetry.ingested", b"x", message_id="id-1"),
            consumer.next_batch(1, 0.1),
        ):
            with pytest.raises(IncompatibleTopology, match=f"The {kind} {name} exists with other settings.*delete"):
                await asyncio.wait_for(attempt, 20)
        await asyncio.gather(publisher.stop(), consumer.stop())

        if kind == "queue":
            assert (await channel.basic_get(QUEUE)).body == b"precious"


async def test_a_refused_login_is_explained_once_and_tried_again(vhost_url: str) -> None:
    parts = urlsplit(vhost_url)
    wrong = urlunsplit(parts._replace(netloc=f"farmiq:wrong-password@127.0.0.1:{parts.port}"))
    with capture_logs() as lines:
        publisher = Publisher(wrong, name="test")
        await publisher.start()
        await eventually(lambda: _is_true(lines))
        with pytest.raises(BusAway):
            await publisher.publish(EXCHANGE, "key", b"body", message_id="id-1")
        await publisher.stop()

    assert lines[0]["event"] == "bus_connect_failed"
    assert "check user, password and virtual host in AMQP_URL" in lines[0]["reason"]
    assert "wrong-password" not in repr(lines)


async def _publishes(publisher: Publisher) -> bool:
    try:
        await publisher.publish(EXCHANGE, "telemetry.ingested", b"probe", message_id="probe")
    except (BusAway, TopologyGone, Unroutable):
        return False
    return True


async def _is_true(fact: object) -> bool:
    return bool(fact)


async def _declare(connection: Any, topology: Topology) -> None:
    await declare(await connection.channel(), topology)

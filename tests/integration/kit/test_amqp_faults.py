"""RabbitMQ restarted, killed, frozen and out of memory under `kit.amqp`: a node of its own, as the others would notice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from farmiq.kit.amqp import BusAway, Consumer, Publisher, Unroutable
from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology
from farmiq.stack.rabbitmq import RabbitMq
from support.rabbitmq import control, start_rabbitmq
from support.server_process import ServerProcess
from support.waiting import eventually

EXCHANGE, QUEUE = "farm.exchange", "farm.ingest.queue"
TOPOLOGY = Topology((Exchange(EXCHANGE),), (Queue(QUEUE),), (Binding(EXCHANGE, QUEUE, "#"),))


@pytest.fixture(scope="module")
def node(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One node for this file: it takes ten seconds to start, and each test leaves it running and empty."""
    epmd, rabbitmq = start_rabbitmq(tmp_path_factory.mktemp("node") / "rabbitmq", run_folder)
    yield rabbitmq
    rabbitmq.kill()
    epmd.stop()


@pytest.fixture
def server(node: ServerProcess) -> RabbitMq:
    assert isinstance(node.server, RabbitMq)
    return node.server


async def test_every_publish_during_a_kill_ends_and_what_was_confirmed_arrives(
    node: ServerProcess, server: RabbitMq
) -> None:
    """The queue is as young as a queue with bindings can be: it has rested, and no more than that."""
    publisher = Publisher(server.url(), name="test", inflight_max=50)
    consumer = Consumer(server.url(), QUEUE, name="test", prefetch=100, topology=TOPOLOGY)
    await consumer.start()
    await asyncio.wait_for(consumer.wait_connected(), 20)
    await publisher.start()
    confirmed: set[bytes] = set()
    away = 0
    is_over = asyncio.Event()

    async def publish_for_ever(name: str) -> None:
        nonlocal away
        number = 0
        while not is_over.is_set():
            number += 1
            body = f"{name}-{number}".encode()
            try:
                await publisher.publish(EXCHANGE, "telemetry", body, message_id=body.decode())
                confirmed.add(body)
            except (BusAway, Unroutable):  # right after its start the node may still have to be told of the binding
                away += 1
                await asyncio.sleep(0.05)

    async def has_confirmed(count: int) -> bool:
        return len(confirmed) >= count

    async with asyncio.timeout(90):
        publishing = [asyncio.create_task(publish_for_ever(str(name))) for name in range(10)]
        await eventually(lambda: has_confirmed(50), seconds=60)
        node.kill()
        await asyncio.to_thread(node.start)
        before = len(confirmed)
        await eventually(lambda: has_confirmed(before + 50), seconds=60)
        is_over.set()
        await asyncio.gather(*publishing)

    received: set[bytes] = set()
    async with asyncio.timeout(30):
        while not confirmed <= received:
            batch = await consumer.next_batch(100, 0.05)
            await consumer.acknowledge(batch)
            received |= {delivery.body for delivery in batch}
    assert away > 0
    await asyncio.gather(publisher.stop(), consumer.stop())


async def test_a_broker_that_blocks_publishers_is_waited_for_so_long_and_no_longer(server: RabbitMq) -> None:
    publisher = Publisher(server.url(), name="test", topology=TOPOLOGY, confirm_seconds_max=1.0)
    await publisher.start()
    await asyncio.wait_for(publisher.wait_connected(), 20)
    control(server, "ok = vm_memory_monitor:set_vm_memory_high_watermark(0.000001)")
    try:

        async def is_blocked() -> bool:
            try:
                await publisher.publish(EXCHANGE, "telemetry", b"x", message_id="id-1")
            except BusAway:
                return True
            return False

        await eventually(is_blocked, seconds=30)
        with pytest.raises(BusAway, match="no answer in time"):
            await asyncio.wait_for(publisher.publish(EXCHANGE, "telemetry", b"x", message_id="id-2"), 10)
        assert publisher.is_connected
    finally:
        control(server, "ok = vm_memory_monitor:set_vm_memory_high_watermark(0.4)")

    async def is_unblocked() -> bool:
        return not await is_blocked()

    await eventually(is_unblocked, seconds=30)
    await publisher.stop()


async def test_stopping_ends_what_waits_for_a_frozen_broker_as_away_and_not_as_cancelled(
    node: ServerProcess, server: RabbitMq
) -> None:
    publisher = Publisher(server.url(), name="test", topology=TOPOLOGY, confirm_seconds_max=60)
    await publisher.start()
    await asyncio.wait_for(publisher.wait_connected(), 20)
    node.pause()
    try:
        publishing = asyncio.create_task(publisher.publish(EXCHANGE, "telemetry", b"x", message_id="id-1"))
        await asyncio.sleep(0)
        await asyncio.wait_for(publisher.stop(), 20)
        with pytest.raises(BusAway):
            await asyncio.wait_for(publishing, 20)
    finally:
        node.resume()


async def test_a_broker_that_is_away_at_the_start_is_an_answer_and_not_a_wait() -> None:
    publisher = Publisher("amqp://user:secret@127.0.0.1:1/", name="test")
    await publisher.start()

    with pytest.raises(BusAway, match=r"No connection to RabbitMQ at 127\.0\.0\.1:1"):
        await asyncio.wait_for(publisher.publish(EXCHANGE, "telemetry", b"x", message_id="id-1"), 5)

    await publisher.stop()

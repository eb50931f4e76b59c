"""RabbitMQ full, blocked or gone: nothing is accepted that it has not confirmed, and the same batch goes through afterwards."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID

import aiormq
import pytest
import pytest_asyncio
from pamqp.common import FieldValue

from farmiq.cloud.ingestion.main import serve
from farmiq.contracts import bus, event_types
from farmiq.kit.postgres import Pool
from farmiq.stack.rabbitmq import RabbitMq
from support.bus_queue import take_all
from support.entrance import SERVICE, event, let_edge_in, remembered, send, statuses, until_ready
from support.rabbitmq import NewVirtualHost, control, start_rabbitmq
from support.server_process import ServerProcess
from support.service_process import running
from support.waiting import eventually

Arguments = dict[str, FieldValue]
NARROW = "farmiq.narrow.test.queue"


@pytest.fixture(scope="module")
def own_server(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A node that these tests alone may hurt."""
    epmd, rabbitmq = start_rabbitmq(tmp_path_factory.mktemp("bus") / "rabbitmq", run_folder)
    yield rabbitmq
    rabbitmq.kill()
    epmd.stop()


@pytest_asyncio.fixture
async def amqp_url(new_vhost: NewVirtualHost, cloud_pool: Pool) -> AsyncIterator[str]:
    await let_edge_in(cloud_pool)
    yield new_vhost()


async def make_narrow_queue(amqp_url: str) -> None:
    """A second queue for the same events that takes one message and refuses the next."""
    connection = await aiormq.connect(amqp_url)
    channel = await connection.channel()
    arguments: Arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await channel.queue_declare(NARROW, durable=True, arguments=arguments)
    await channel.queue_bind(NARROW, bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_INGESTED)
    await connection.close()


async def test_a_full_queue_refuses_what_it_can_not_keep_and_only_the_rest_is_remembered(
    cloud_url: str, cloud_pool: Pool, amqp_url: str
) -> None:
    events = [event() for _ in range(4)]
    async with running(serve, SERVICE, {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}) as url:
        await until_ready(url)
        await make_narrow_queue(amqp_url)
        confirmed: set[str] = set()
        for _ in events:
            status, answer, retry_after = await send(url, *events)
            known = set(await remembered(cloud_pool))
            assert confirmed < known
            confirmed = known
            if status == 200:
                break
            assert (status, answer["error"]["code"], retry_after) == (503, "bus_refused", "5")
            # What is remembered is what the queue took: it was there, and it is taken out now to make room.
            assert {str(one.event_id) for one in await take_all(amqp_url, NARROW)} <= known
        assert statuses(answer).count("accepted") >= 1
        assert set(statuses(answer)) <= {"accepted", "duplicate"}
        assert confirmed == {one["event_id"] for one in events}
    on_the_bus = {one.event_id for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)}
    assert on_the_bus == {UUID(one["event_id"]) for one in events}


async def test_a_binding_that_somebody_deleted_is_made_again_and_no_event_is_rejected_for_it(
    cloud_url: str, cloud_pool: Pool, amqp_url: str
) -> None:
    async with running(serve, SERVICE, {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url}) as url:
        await until_ready(url)
        connection = await aiormq.connect(amqp_url)
        channel = await connection.channel()
        await channel.queue_unbind(bus.TELEMETRY_INGEST_QUEUE, bus.EVENT_EXCHANGE, "#")
        await connection.close()
        door = event(event_type="door.opened", payload={})

        status, answer, retry_after = await send(url, door)
        assert (status, answer["error"]["code"], retry_after) == (503, "topology_gone", "5")
        assert await remembered(cloud_pool) == []

        async def is_taken() -> bool:
            status, answer, _ = await send(url, door)
            return status == 200 and statuses(answer) == ["accepted"]

        await eventually(is_taken, 60.0, "the event to be accepted")
    assert [str(one.event_id) for one in await take_all(amqp_url, bus.TELEMETRY_INGEST_QUEUE)] == [door["event_id"]]


async def test_while_rabbitmq_blocks_publishers_edges_are_told_to_come_back_and_it_recovers_by_itself(
    cloud_url: str, cloud_pool: Pool, own_server: ServerProcess
) -> None:
    await let_edge_in(cloud_pool)
    server = own_server.server
    assert isinstance(server, RabbitMq)
    first, second = event(), event()
    async with running(serve, SERVICE, {"DATABASE_URL": cloud_url, "AMQP_URL": server.url()}) as url:
        await until_ready(url)
        # The alarm is raised as on a machine without memory; RabbitMQ then stops reading from whoever publishes.
        control(server, "ok = vm_memory_monitor:set_vm_memory_high_watermark(0.000001)")
        try:

            async def is_deferred() -> bool:
                status, answer, retry_after = await send(url, first)
                assert (status, retry_after) in {(200, None), (503, "5")}
                assert status == 200 or answer["error"]["code"] == "bus_away"
                return status == 503

            await eventually(is_deferred, 60.0, "the alarm to be felt")
            was_known = await remembered(cloud_pool)
            status, _, _ = await send(url, first, second)
            assert status == 503
            assert await remembered(cloud_pool) == was_known
            assert second["event_id"] not in was_known
        finally:
            control(server, "ok = vm_memory_monitor:set_vm_memory_high_watermark(0.4)")

        async def is_taken() -> bool:
            status, _, _ = await send(url, first, second)
            return status == 200

        await eventually(is_taken, 60.0, "the batch to be accepted")
        assert await remembered(cloud_pool) == sorted([first["event_id"], second["event_id"]])
    found = {str(one.event_id) for one in await take_all(server.url(), bus.TELEMETRY_INGEST_QUEUE)}
    assert found == {first["event_id"], second["event_id"]}


async def test_rabbitmq_killed_and_started_again_has_everything_that_was_accepted(
    cloud_url: str, cloud_pool: Pool, own_server: ServerProcess
) -> None:
    await let_edge_in(cloud_pool)
    server = own_server.server
    assert isinstance(server, RabbitMq)
    before, after = [event() for _ in range(20)], event()
    async with running(serve, SERVICE, {"DATABASE_URL": cloud_url, "AMQP_URL": server.url()}) as url:
        await until_ready(url)
        _, answer, _ = await send(url, *before)
        assert statuses(answer) == ["accepted"] * 20
        own_server.kill()
        status, answer, retry_after = await send(url, after)
        assert (status, answer["error"]["code"], retry_after) == (503, "bus_away", "5")
        assert after["event_id"] not in await remembered(cloud_pool)
        own_server.start(seconds=120)
        await until_ready(url)

        async def is_taken() -> bool:
            return (await send(url, after))[0] == 200

        await eventually(is_taken, 60.0, "the event to be accepted")
    found = {str(one.event_id) for one in await take_all(server.url(), bus.TELEMETRY_INGEST_QUEUE)}
    assert found == {one["event_id"] for one in (*before, after)}

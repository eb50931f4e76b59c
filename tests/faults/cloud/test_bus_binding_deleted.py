"""Somebody deletes bindings while edges send: RabbitMQ gives the messages back, no edge is told that they were taken, and the
entrance makes the bindings again."""

from collections.abc import Sequence
from pathlib import Path

from farmiq.cloud.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.kit.amqp_inspection import connected
from farmiq.kit.postgres import Pool
from support.cloud_traffic import WORK_QUEUE, Edge, cloud, traffic, until_more_is_taken
from support.entrance import event, send, statuses
from support.rabbitmq import NewVirtualHost
from support.waiting import eventually


async def delete_bindings(amqp_url: str, exchange: str) -> None:
    """Those of the queue that is looked at last: RabbitMQ gives back only what no queue takes."""
    wanted = [binding for binding in topology().bindings if binding.exchange == exchange]
    async with connected(amqp_url, "test") as connection:
        channel = await connection.channel()
        for binding in sorted(wanted, key=lambda one: one.queue == WORK_QUEUE.name):
            await channel.queue_unbind(binding.queue, exchange, binding.routing_key)


async def delete_one(amqp_url: str) -> None:
    """The only one of readings for this queue; another queue still takes them."""
    async with connected(amqp_url, "test") as connection:
        channel = await connection.channel()
        await channel.queue_unbind(WORK_QUEUE.name, bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_INGESTED)


async def until_returned(edges: Sequence[Edge], times: int) -> None:
    async def is_told() -> bool:
        return sum(edge.answers["topology_gone"] for edge in edges) >= times

    await eventually(is_told, 30.0, "an edge to be told that the bindings are gone")


async def test_deleted_bindings_are_noticed_by_the_first_message_and_nothing_is_lost(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    amqp_url = new_vhost()
    async with cloud(cloud_pool, cloud_url, amqp_url, run_folder, tmp_path) as here:
        ingestion, telemetry = await here.ingestion(), await here.telemetry_service()
        async with traffic(ingestion.url) as edges:
            for times in (1, 2):
                await until_more_is_taken(edges, 100)
                await delete_bindings(amqp_url, bus.TELEMETRY_EXCHANGE)
                await until_returned(edges, times)
                await until_more_is_taken(edges, 100)
        await here.until_stored(edges)
        await here.stop(telemetry)
        await here.check(edges)
        assert set((await here.depths()).values()) == {0}


async def test_a_binding_deleted_beside_another_queues_is_made_again_by_the_consumer_that_lacks_it(
    cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    """RabbitMQ tells nobody: until then such messages reach the other queue alone."""
    amqp_url = new_vhost()
    async with cloud(cloud_pool, cloud_url, amqp_url, run_folder, tmp_path) as here:
        ingestion = await here.ingestion()
        await here.telemetry_service()
        await send(ingestion.url, event())
        await eventually(here.stored, 60.0, "the first reading")
        await delete_one(amqp_url)

        async def is_heard_again() -> bool:
            _, answer, _ = await send(ingestion.url, event())
            assert statuses(answer) == ["accepted"]
            return await here.stored() > 1

        await eventually(is_heard_again, 60.0, "the binding to be there again")

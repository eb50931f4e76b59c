"""The consumer is killed around its commit and its acknowledgement while a weigh session comes in: it is stored once."""

import asyncio
from pathlib import Path

import pytest

from farmiq.cloud.telemetry_service.topology import topology
from farmiq.contracts import bus
from farmiq.contracts.decoding import encode
from farmiq.contracts.envelope import BusEnvelope
from farmiq.kit.amqp import Publisher
from farmiq.kit.postgres import Pool
from support.cloud_weighings import a_session, number
from support.rabbitmq import NewVirtualHost
from support.service_process import service_process
from support.waiting import eventually

SERVICE = "cloud-telemetry-service"
BEFORE_COMMIT = ("farmiq.cloud.telemetry_service.handlers:store_weighings", "after", 2)
AFTER_COMMIT = ("farmiq.kit.amqp:Consumer.acknowledge", "before", 2)
AFTER_ACK = ("farmiq.kit.amqp:Consumer.acknowledge", "after", 2)


async def publish(publisher: Publisher, envelope: BusEnvelope) -> None:
    await publisher.publish(
        bus.exchange_for(envelope.event_type),
        envelope.event_type,
        encode(envelope),
        message_id=str(envelope.event_id),
        headers={bus.EDGE_HEADER: "edge-1"},
    )


@pytest.mark.parametrize("dies", [BEFORE_COMMIT, AFTER_COMMIT, AFTER_ACK])
async def test_consumer_killed_around_its_acknowledgement_stores_a_session_once_and_whole(
    dies: tuple[str, str, int],
    cloud_url: str,
    cloud_pool: Pool,
    new_vhost: NewVirtualHost,
    run_folder: Path,
    tmp_path: Path,
) -> None:
    amqp_url = new_vhost()
    environ = {"DATABASE_URL": cloud_url, "AMQP_URL": amqp_url, "ADMIN_TOKEN": "for-this-test"}
    first, second, *rest = a_session(1, weights=3)
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()

    async def is_created() -> bool:
        return bool(await cloud_pool.fetchval("SELECT count(*) = 1 FROM weight_sessions"))

    async def is_ended() -> bool:
        return bool(await cloud_pool.fetchval("SELECT count(*) = 1 FROM weight_sessions WHERE status = 'finalized'"))

    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log", dies) as service:
        await publish(publisher, first)
        await eventually(is_created, 60.0, "the session in the cloud")
        await publish(publisher, second)
        await asyncio.to_thread(service.wait_for_death)
    for envelope in rest:
        await publish(publisher, envelope)
    with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):
        await eventually(is_ended, 60.0, "the end of the session")
    await publisher.stop()
    row = await cloud_pool.fetchrow(
        """
        SELECT id, start_at, image_count, (SELECT count(*) FROM recorded_weights) AS weights,
               (SELECT count(*) FROM captured_images) AS images, (SELECT count(*) FROM inference_results) AS results
          FROM weight_sessions
        """
    )
    assert row is not None
    assert tuple(row) == (number(1), first.occurred_at, 2, 3, 2, 1)

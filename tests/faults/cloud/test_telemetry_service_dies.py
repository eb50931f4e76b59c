"""The consumer is killed between commit and acknowledgement, and on both sides of it."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from farmiq.cloud.telemetry_service.topology import topology
from farmiq.contracts import bus, event_types
from farmiq.contracts.telemetry import pack_of
from farmiq.kit.amqp import Publisher
from farmiq.kit.postgres import Pool
from support.rabbitmq import NewVirtualHost
from support.service_process import service_process
from support.telemetry import batch_of, bus_body
from support.waiting import eventually

SERVICE = "cloud-telemetry-service"
BEFORE_COMMIT = ("farmiq.timeseries.store:save_coverage", "after", 2)
AFTER_COMMIT = ("farmiq.kit.amqp:Consumer.acknowledge", "before", 2)
AFTER_ACK = ("farmiq.kit.amqp:Consumer.acknowledge", "after", 2)


async def publish(publisher: Publisher, stream: UUID, first: int, last: int) -> None:
    body = bus_body(event_types.TELEMETRY_BATCH_INGESTED, pack_of(batch_of(stream, 1, 40), first, last))
    await publisher.publish(bus.TELEMETRY_EXCHANGE, event_types.TELEMETRY_BATCH_INGESTED, body, message_id=str(uuid4()))


async def wait_for_seqs(pool: Pool, stream: UUID, last: int) -> None:
    async def are_there() -> bool:
        return bool(await pool.fetchval("SELECT count(*) >= $2 FROM telemetry_raw WHERE stream_id = $1", stream, last))

    await eventually(are_there, 60.0, f"{last} samples in the cloud")


@pytest.mark.parametrize("dies", [BEFORE_COMMIT, AFTER_COMMIT, AFTER_ACK])
async def test_consumer_killed_around_its_acknowledgement_stores_every_sample_once(
    dies: tuple[str, str, int],
    cloud_url: str,
    cloud_pool: Pool,
    new_vhost: NewVirtualHost,
    run_folder: Path,
    tmp_path: Path,
) -> None:
    amqp_url = new_vhost()
    environ = {
        "DATABASE_URL": cloud_url,
        "AMQP_URL": amqp_url,
        "ADMIN_TOKEN": "for-this-test",
    }
    stream = uuid4()
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log", dies) as service:
        await publish(publisher, stream, 1, 10)
        await wait_for_seqs(cloud_pool, stream, 10)
        await publish(publisher, stream, 11, 20)
        await asyncio.to_thread(service.wait_for_death)
    with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):
        await publish(publisher, stream, 21, 40)
        await wait_for_seqs(cloud_pool, stream, 40)
        rows = await cloud_pool.fetch("SELECT seq FROM telemetry_raw WHERE stream_id = $1 ORDER BY seq", stream)
        assert [row["seq"] for row in rows] == list(range(1, 41))
        assert await cloud_pool.fetchval("SELECT sum(count) FROM telemetry_agg WHERE \"window\" = '1h'") == 40
    await publisher.stop()

"""The service is killed around its acknowledgement, and around the commit of a computed day."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from farmiq.cloud.analytics_service.topology import SERVICE, topology
from farmiq.kit.amqp import Delivery, Publisher
from farmiq.kit.postgres import Pool
from support import analytics_events as events
from support.rabbitmq import NewVirtualHost
from support.service_process import Death, service_process
from support.waiting import eventually

BEFORE_COMMIT = ("farmiq.cloud.analytics_service.marks:mark", "after", 2)
AFTER_COMMIT = ("farmiq.kit.amqp:Consumer.acknowledge", "before", 2)
COMPUTED_NOT_COMMITTED = ("farmiq.cloud.analytics_service.results:replace", "after", 2)

HOUR_AT = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=3)


async def publish(publisher: Publisher, deliveries: list[Delivery]) -> None:
    for one in deliveries:
        await publisher.publish(one.exchange, one.routing_key, one.body, message_id=str(uuid4()))


async def wait_for_samples(pool: Pool, samples: int) -> None:
    async def are_counted() -> bool:
        counted = await pool.fetchval(
            "SELECT (data ->> 'samples')::int FROM analytics_kpis WHERE scope = 'barn' AND day = $1", HOUR_AT.date()
        )
        return bool(counted == samples)

    await eventually(are_counted, 60.0, f"a day of {samples} samples")


@pytest.mark.parametrize("dies", [BEFORE_COMMIT, AFTER_COMMIT, COMPUTED_NOT_COMMITTED])
async def test_a_service_killed_anywhere_computes_the_day_from_every_event_once(
    dies: Death, cloud_url: str, cloud_pool: Pool, new_vhost: NewVirtualHost, run_folder: Path, tmp_path: Path
) -> None:
    amqp_url = new_vhost()
    environ = {
        "DATABASE_URL": cloud_url,
        "AMQP_URL": amqp_url,
        "ADMIN_TOKEN": "for-this-test",
        "JOB_SCHEDULER_ENABLED": "false",
        "RECOMPUTE_DEBOUNCE_MS": "0",
        "RECOMPUTE_POLL_MS": "50",
    }
    publisher = Publisher(amqp_url, name="test", topology=topology())
    await publisher.start()
    await publisher.wait_connected()
    with service_process(SERVICE, environ, run_folder, tmp_path / "first.log", dies) as service:
        await publish(publisher, [events.hour(HOUR_AT, 20.0, sensor="t1", revision=121)])
        if dies is not COMPUTED_NOT_COMMITTED:
            await wait_for_samples(cloud_pool, 60)
        await publish(publisher, [events.hour(HOUR_AT, 20.0, sensor="t2", revision=201)])
        await asyncio.to_thread(service.wait_for_death)
    with service_process(SERVICE, environ, run_folder, tmp_path / "second.log"):
        await wait_for_samples(cloud_pool, 160)
        await publish(publisher, [events.hour(HOUR_AT, 20.0, sensor="t3", revision=41)])
        await wait_for_samples(cloud_pool, 180)
        assert await cloud_pool.fetchval("SELECT count(*) FROM analytics_hours") == 3
    await publisher.stop()
